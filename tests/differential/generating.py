"""The conversations of a seed: the same seed, corpus and schemas give the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from attrs import evolve

from tests.differential import kinds, wire
from tests.differential.corpus import Conversation
from tests.differential.mutating import Grammar, varied


def class_names(grammar: Grammar) -> list[str]:
    """All classes: those of the golden files, and two that are generated without a recording."""
    return sorted([*grammar.corpus.by_class, kinds.CLASS, wire.CLASS])


def conversation(name: str, seed: str, grammar: Grammar) -> Conversation:
    """The conversation of a class and a seed."""
    random = Random(f"{name}/{seed}")
    makers: dict[str, Callable[[], Conversation]] = {
        wire.CLASS: lambda: wire.conversation(random),
        kinds.CLASS: lambda: kinds.conversation(grammar, random),
    }
    maker = makers.get(name)
    if maker is not None:
        made = maker()
    else:
        made = varied(random.choice(grammar.corpus.by_class[name]), grammar, random)
    return evolve(made, seed=seed)


def conversations(
    seed: int, count: int, names: list[str], grammar: Grammar
) -> Iterator[Conversation]:
    """`count` conversations, the classes in turn."""
    for number in range(count):
        yield conversation(names[number % len(names)], f"{seed}-{number // len(names)}", grammar)
