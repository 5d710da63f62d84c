"""An unknown argument is refused in one sentence."""

import functools
import inspect

import pytest

import belated as bl
from belated import names
from belated.core.checks import explained

PROBLEM = bl.Problem(states=1, actions=2, horizon=1)
NO_CALLS = {"Agent", "FeedbackError", "NEVER", "SavedFileError"}
"""A protocol, two errors and a number."""
CALLS = [
    *(name for name in names.TOP if name not in NO_CALLS),
    *(f"parts.{name}" for name in names.PARTS),
    *(f"wrappers.{name}" for name in names.WRAPPERS),
]


def found(path):
    return functools.reduce(getattr, path.split("."), bl)


def given(item):
    """A value for every required argument; no value is used."""
    parameters = inspect.signature(item).parameters.values()
    return {
        p.name: PROBLEM
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


@pytest.mark.parametrize("path", CALLS)
def test_an_unknown_argument_is_named_with_those_that_exist(path):
    item = found(path)
    allowed = [
        p.name
        for p in inspect.signature(item).parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    with pytest.raises((TypeError, ValueError)) as caught:
        item(**given(item), no_such_argument=1)
    text = str(caught.value)
    assert "no_such_argument" in text
    assert "__init__" not in text
    assert "\n" not in text
    assert all(name in text for name in allowed) or path in ("advise", "recommend"), text


@pytest.mark.parametrize("path", CALLS)
def test_the_nearest_argument_is_named(path):
    item = found(path)
    if path in ("advise", "recommend"):
        name, others = "information", {"problem": PROBLEM}
    else:
        named = [
            p.name
            for p in inspect.signature(item).parameters.values()
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and len(p.name) > 2
        ]
        if not named:
            return
        name, others = named[-1], given(item)
        others.pop(name, None)
    with pytest.raises((TypeError, ValueError), match=f"did you mean '{name}'"):
        item(**others, **{name + "x": 1})


def test_the_sentences_of_two_mistakes():
    agent = bl.recommend(PROBLEM, information="bandit")
    with pytest.raises(TypeError) as caught:
        bl.Inbox(agent, deadlin=3)
    assert str(caught.value).startswith(
        "Inbox has no argument 'deadlin' (did you mean 'deadline'?); it takes agent, "
    )
    with pytest.raises(TypeError) as caught:
        bl.DelayedOPPO(PROBLEM, updte=None)
    assert str(caught.value) == (
        "DelayedOPPO has no argument 'updte' (did you mean 'update'?); "
        "it takes problem, transitions, costs, update, explore"
    )


def test_other_mistakes_keep_their_message():
    @explained
    def outer(value):
        return inner(vale=value)

    def inner(value):
        return value

    with pytest.raises(TypeError, match=r"inner.. got an unexpected keyword argument 'vale'"):
        outer(value=1)
    with pytest.raises(TypeError, match="missing"):
        outer()
    with pytest.raises(TypeError, match="missing"):
        bl.Problem(3)


def test_signatures_and_names_stay():
    assert next(iter(inspect.signature(bl.DelayedOPPO).parameters)) == "problem"
    assert bl.simulate.__name__ == "simulate"
    assert bl.Costs.__init__.__name__ == "__init__"
