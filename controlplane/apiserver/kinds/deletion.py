"""The options of a deletion."""

from __future__ import annotations

__all__ = ["DeleteOptions"]


class DeleteOptions:
    """The parsed options of a deletion; None and "" mean not given."""

    __slots__ = ("dry_run", "grace", "orphan", "policy", "uid", "version")

    def __init__(
        self,
        grace: int | None = None,
        uid: str | None = None,
        version: str | None = None,
        policy: str = "",
        orphan: bool | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        self.grace = grace
        self.uid = uid
        self.version = version
        self.policy = policy
        self.orphan = orphan
        self.dry_run = dry_run

    def copy(self) -> DeleteOptions:
        """An independent copy: a deletion may change its options."""
        return DeleteOptions(
            self.grace, self.uid, self.version, self.policy, self.orphan, dry_run=self.dry_run
        )
