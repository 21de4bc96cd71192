"""The type parameters of generic containers of objects: the class of the view, `View` by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.view import View

__all__ = ["V", "V_co"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    V = TypeVar("V", bound=View, default=View)
    V_co = TypeVar("V_co", bound=View, default=View, covariant=True)
else:
    from typing import TypeVar

    V = TypeVar("V", bound=View)
    V_co = TypeVar("V_co", bound=View, covariant=True)
