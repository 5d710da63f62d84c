"""What an object has learned, as a tree of plain values, and the object from such a tree.

A class that learns derives from `Learned` and annotates what it learns in its body, without a
value. Its constructor gives the sizes of the axes; what it does not set begins at 0. Nothing else
is needed to save it:

    class Means(Learned):
        sums: Annotated[Floats, Entries("S A")]
        visits: Annotated[Ints, Entries("S A", low=0)]

        def __init__(self, problem):
            self.set_first_values(problem.axes)

`freeze` turns an object into dictionaries, lists, numbers, texts and arrays:

    None, a number, a text, an array         itself
    a list or a queue, a tuple               {"list": [...]}, {"tuple": [...]}
    a dictionary                             {"dict": [[key, value], ...]}
    an object with fields                    {"class": name, "arguments": {...}}
    a `Configured` object that is an argument, such as a problem: the same
    a `Configured` object that learns        {"class": ..., "arguments": ..., "learned": {...}}
    a `Learned` object inside of another     {"class": ..., "learned": {...}}

`thaw` makes a fresh object from the saved arguments and fills it. It compares the tree with the
annotations and with the fresh object: names, types, the size of every axis, and the range of every
number, because kernels do not check an index again.
"""

import copy
import inspect
import math
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from importlib import import_module
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from belated import names
from belated.core import checks
from belated.core.arrays import frozen

LARGEST_FLOAT = 1e280
"""The largest number that a learned array may hold: sums of such numbers are still finite."""
LARGEST_WHOLE = checks.MOST**2
SMALL = 2**24
"""Bytes: agents are made only if their policies together need at most the tree's size and this."""

PLAIN = (bool, int, float, str, type(None), None)
CONTAINERS: dict[str, Any] = {"dict": dict[Any, Any], "list": list[Any], "tuple": tuple[Any, ...]}
"""Containers, by the key that marks each in a tree."""
Tree = Any
"""Plain values: None, numbers, texts, arrays, and lists and dictionaries of them."""

EMPTY = (bool, int, float, list, dict, deque, type(None))
"""Types whose first value is 0, False, None or an empty container."""

_OWN: dict[str, type] = {}
"""Classes that `register` has added, by name."""
_THAWING: ContextVar[bool] = ContextVar("thawing", default=False)


@dataclass(frozen=True, slots=True)
class Entries:
    """What the entries of a learned array, or a learned number, may be.

    Attributes:
        axes: the names of all axes, as in "T S A W", or the name of a shape. Names that the problem
            or the agent knows (`axes`) have these sizes. Another name stands for any size, and for
            the same one wherever it occurs; "_" for any size, a number for itself, "1|H" for one of
            both. Without names the array has the shape of that of a fresh object.
        low: the smallest allowed entry.
        high: the largest allowed entry; infinity allows infinite numbers.
        below: the name of the axis that the entries are indices of; `low` is 0, or -1 for none.
        rows: whether the rows over the last axis are probabilities that sum to 1.
        changes: whether an array that a fresh object lacks is changed in place.
    """

    axes: str = ""
    low: float = -LARGEST_FLOAT
    high: float = LARGEST_FLOAT
    below: str = ""
    rows: bool = False
    changes: bool = False


ANYTHING = Entries()
Rows = Annotated[np.ndarray[Any, np.dtype[np.float64]], Entries(rows=True)]
"""An array whose rows are probabilities."""
Count = Annotated[int, Entries(low=0, high=checks.MOST)]
"""The number of times that something has happened."""


class Learned:
    """An object whose annotated attributes without a value are what it has learned."""

    def set_first_values(self, axes: Mapping[str, Any] = types.MappingProxyType({})) -> None:
        """Begin with nothing learned, except for the attributes that are set already.

        Numbers and arrays whose axes are known are 0, flags False, optional values None, and
        containers empty. Other attributes are set by the constructor of the class.

        axes: the sizes of axes, by name.
        """
        for name in [n for n in learned_names(type(self)) if not hasattr(self, n)]:
            hint, rule = _marked(_hints(type(self)).get(name))
            kind = get_origin(hint) or hint
            if kind in (Union, types.UnionType) and type(None) in get_args(hint):
                kind = type(None)
            sizes = [int(n) if n.isdigit() else axes.get(n) for n in rule.axes.split()]
            if kind is np.ndarray and set(map(type, sizes)) == {int}:
                setattr(self, name, np.zeros(sizes, *get_args(get_args(hint)[1])))
            elif kind in EMPTY:
                setattr(self, name, kind())

    def check_learned(self) -> None:
        """Raise `ValueError` if thawed values do not belong together; kernels rely on them."""


def parameters(cls: Any) -> list[inspect.Parameter]:
    """The arguments of a constructor, in their order: the signature describes a class."""
    return list(inspect.signature(cls).parameters.values())


class Configured(Learned):
    """An object that keeps the arguments of its constructor, so that it can be made again."""

    def configuration(self) -> dict[str, Any]:
        """The arguments of the constructor, which are attributes of the same names."""
        return {each.name: getattr(self, each.name) for each in parameters(type(self))}

    def __repr__(self) -> str:
        given, named = self.configuration(), parameters(type(self))
        plain = [given.pop(each.name) for each in named if each.kind != each.KEYWORD_ONLY]
        return call(self, *plain, **given)


def call(made: object, *given: object, **named: object) -> str:
    """The call that makes an object, for its `repr`."""
    told = [*map(repr, given), *(f"{name}={value!r}" for name, value in named.items())]
    return f"{type(made).__name__}({', '.join(told)})"


def register(cls: type, name: str | None = None) -> type:
    """Allow objects of a class of your own to be saved and loaded; usable as a decorator.

    A frozen dataclass, such as a part, is saved by its fields, and a `Configured` agent by its
    arguments and what it has learned.
    """
    if not isinstance(cls, type):
        raise ValueError(f"cls must be a class, got {checks.show(cls)}")
    name = cls.__name__ if name is None else name
    if not (is_dataclass(cls) or issubclass(cls, Configured)):
        raise ValueError(f"{name} must be a dataclass, or derive from belated.core.tree.Configured")
    if _OWN.get(name, cls) is not cls or name in names.SAVED:
        raise ValueError(f"name must be one that is not taken, got {name!r}")
    _OWN[name] = cls
    return cls


def class_of(name: object) -> Any:
    """The class that a tree names; the library's own are imported when they are needed."""
    name = checks.choice("class", name, (*names.SAVED, *_OWN))
    if name in _OWN:
        return _OWN[name]
    return getattr(import_module(f"belated.{names.SAVED[name]}"), name)


def _name_of(cls: type) -> str:
    """The name under which objects of a class are saved."""
    name = next((own for own, registered in _OWN.items() if registered is cls), cls.__name__)
    if name not in (*names.SAVED, *_OWN) or class_of(name) is not cls:
        hint = getattr(cls, "unsaved", "belated.saving.register adds one")
        raise ValueError(
            f"an object must be of a class that can be saved ({hint}), got one of {name}"
        )
    return name


def freeze(item: Any) -> Tree:
    """An object as a tree, which later changes of the object do not change.

    An object that threads share has a `lock`, which is held meanwhile.
    """
    with getattr(item, "lock", nullcontext()):
        return _tree(item, argument=False)


def describe(item: Any) -> Any:
    """The class and arguments of an agent or a part as plain values; arrays as their shapes."""
    return _described(_tree(item, argument=True))


def _described(tree: Tree) -> Any:
    if isinstance(tree, np.ndarray):
        return {"shape": list(tree.shape)}
    if isinstance(tree, list):
        return [_described(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "class" not in tree:
        return _described(next(iter(tree.values())))
    given = {name: _described(value) for name, value in tree["arguments"].items()}
    return {"class": tree["class"], **given}


def _tree(item: Any, *, argument: bool) -> Tree:
    """The tree of an object; of an agent that is an argument, only what makes it again."""
    if item is None or isinstance(item, bool | int | float | str):
        return item
    if isinstance(item, np.generic):
        return item.item()
    if isinstance(item, np.ndarray):
        return item.copy() if item.flags.writeable else item
    if isinstance(item, dict):
        pairs = ((key, _tree(value, argument=argument)) for key, value in item.items())
        return {"dict": [[freeze(key), value] for key, value in pairs]}
    if isinstance(item, list | deque) or type(item) is tuple:
        kind = "tuple" if type(item) is tuple else "list"
        return {kind: [_tree(each, argument=argument) for each in item]}
    cls: Any = type(item)
    if isinstance(item, Configured):
        given = {name: _tree(v, argument=True) for name, v in item.configuration().items()}
        made = {"class": _name_of(cls), "arguments": given}
        return {**made, "learned": _values(item)} if learned_names(cls) and not argument else made
    if isinstance(item, Learned):
        return {"class": cls.__name__, "learned": _values(item)}
    name = cls.__name__ if has_fields(cls) and not argument else _name_of(cls)
    given = {n: _tree(getattr(item, n), argument=argument) for n in _arguments(cls, {})}
    return {"class": name, "arguments": given}


def _values(item: object) -> Tree:
    return {name: freeze(getattr(item, name)) for name in learned_names(type(item))}


def has_fields(cls: Any) -> bool:
    """Whether a class is a dataclass or a named tuple."""
    return is_dataclass(cls) or hasattr(cls, "_fields")


def _arguments(cls: Any, given: Iterable[str]) -> list[str]:
    """The names of the arguments of a class, which may be any where it takes any."""
    known = parameters(cls)
    takes_any = any(each.kind == each.VAR_KEYWORD for each in known)
    return [*given] if takes_any else [each.name for each in known]


def _learned_names(cls: Any) -> tuple[str, ...]:
    """The attributes that a class and its bases annotate without a value."""
    annotated = (
        name
        for base in reversed(cls.__mro__)
        for name, hint in inspect.get_annotations(base).items()
        if name not in vars(base) and "ClassVar" not in str(hint)
    )
    return tuple(dict.fromkeys(annotated))


def _all_hints(cls: Any) -> dict[str, Any]:
    """The annotations of a class; only those of its base if it uses names that are not known."""
    with suppress(NameError, AttributeError):
        return get_type_hints(cls, include_extras=True)
    return _hints(cls.__base__)


learned_names: Callable[[Any], tuple[str, ...]] = cache(_learned_names)
_hints: Callable[[Any], dict[str, Any]] = cache(_all_hints)


def _marked(hint: Any) -> tuple[Any, Entries]:
    """A type without its marks, and the rule among these."""
    hint, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    return hint, next((mark for mark in marks if isinstance(mark, Entries)), ANYTHING)


def is_thawing() -> bool:
    """Whether an object is being made from a tree, so that agents inside need not be fresh."""
    return _THAWING.get()


def thaw(tree: Tree, size: float = math.inf) -> Any:
    """The object that `freeze` has turned into a tree; ValueError if the tree cannot be right.

    size: the number of bytes of the tree's arrays, which bounds what is made from it.
    """
    token = _THAWING.set(True)
    try:
        return _Reader({}, {}, Any, {"left": size + SMALL}).read("a value", Any, tree)
    finally:
        _THAWING.reset(token)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes objects from a tree. Inside of an agent another reader goes on, which knows its axes.

    Attributes:
        named: the sizes of the axes that the problem and the agent know.
        sizes: those of all axes that have names.
        memory: the type of what an agent remembers of an open episode.
        allowance: common to all readers of one tree: the bytes of policies that may still be made,
            as "left", and the arrays that belong to one object alone, by their `id`.
    """

    named: dict[str, Any]
    sizes: dict[str, Any]
    memory: Any
    allowance: dict[Any, Any]

    def read(self, name: str, hint: Any, saved: Tree, fresh: Any = None) -> Any:
        """The value of a tree, if it is of the annotated type; a tree itself says what `Any` is.

        fresh: the value in a fresh object, which knows more than the annotation: the shape of an
        array, or an object to fill.
        """
        hint, rule = _marked(hint)
        if isinstance(hint, TypeVar):
            return self.read(name, self.memory, saved, fresh)
        if hint is Any and isinstance(fresh, Learned):
            hint = type(fresh)
        elif hint is Any and not isinstance(saved, dict | list):
            return saved
        elif hint is Any and "class" in saved:
            return self._make(saved)
        elif hint is Any:
            hint = CONTAINERS[checks.choice(name, next(iter(saved), None), CONTAINERS)]
        kind = get_origin(hint) or hint
        if kind in (Union, types.UnionType):
            return self.read(name, _member(get_args(hint), saved), saved, fresh)
        if kind is np.ndarray:
            return self._array(name, np.dtype(*get_args(get_args(hint)[1])), rule, saved, fresh)
        if kind in PLAIN:
            return _plain(name, kind, saved, rule)
        if kind in (list, deque, tuple, dict):
            return self._container(name, kind, get_args(hint), saved, fresh)
        return self._object(name, kind, saved, fresh)

    def _make(self, tree: Tree) -> Any:
        """The object of a tree that says how it is made."""
        cls = class_of(tree["class"])
        parts = [part for part in ("class", "arguments", "learned") if part in tree]
        arguments = exact(tree, *parts)["arguments"]
        given = {
            n: self.read(n, Any, v)
            for n, v in exact(arguments, *_arguments(cls, arguments)).items()
        }
        made = cls(**given)
        self.allowance["left"] -= 8 * getattr(made, "policy_size", 0)
        if self.allowance["left"] < 0:
            raise ValueError(f"{made} is too large for the arrays of the file")
        if "learned" in tree:
            axes = {**getattr(made.problem, "axes", {}), **getattr(made, "axes", {})}
            replace(self, named=axes, sizes=axes.copy())._fill(made, tree["learned"])
        return made

    def _fill(self, made: Any, learned: Tree) -> None:
        """Give a fresh object what it has learned."""
        reader = replace(self, memory=getattr(made, "remembers", self.memory))
        cls = type(made)
        for name, value in reader._attributes(cls, learned_names(cls), learned, made).items():
            setattr(made, name, value)
        made.check_learned()

    def _attributes(
        self, cls: Any, known: Sequence[str], saved: Tree, fresh: Any
    ) -> dict[str, Any]:
        """The annotated attributes of a class, by name."""
        given, hints = exact(saved, *known), _hints(cls)
        return {n: self.read(n, hints[n], given[n], getattr(fresh, n, None)) for n in known}

    def _array(self, name: str, dtype: Any, rule: Entries, saved: Tree, fresh: Any) -> Any:
        """An array of the right type and sizes; a copy if the fresh object changes its own."""
        if not (isinstance(saved, np.ndarray) and saved.dtype == dtype):
            shown = saved.dtype if isinstance(saved, np.ndarray) else checks.show(saved)
            raise ValueError(f"{name} must be an array of {dtype}, got {shown}")
        if not rule.axes and not isinstance(fresh, np.ndarray):
            raise TypeError(f"the axes of {name} must be declared, as no fresh object has it")
        sizes = self._sizes(rule.axes, saved.shape) if rule.axes else fresh.shape
        if saved.shape != sizes:
            raise ValueError(f"{name} must have shape {sizes}, got {saved.shape}")
        low, high = rule.low, rule.high
        if rule.below:
            low, high = max(low, -1.0), self.sizes[rule.below] - 1
        if saved.size and dtype != np.bool_ and not (saved.min() >= low and saved.max() <= high):
            raise ValueError(f"{name} must be from {low:g} to {high:g}, got an entry that is not")
        if rule.rows:
            checks.distributions(name, saved)
        if not (rule.changes if fresh is None else fresh.flags.writeable):
            return frozen(saved)
        if saved.size and id(saved) in self.allowance:
            raise ValueError(f"{name} must have an array of its own, got that of another")
        self.allowance[id(saved)] = saved
        return np.array(saved)

    def _sizes(self, axes: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes that axes must have; a new name gets the size that is there."""
        whole = self.sizes.get(axes, axes)
        if isinstance(whole, tuple):
            return whole
        wanted = str(whole).split()
        if len(wanted) != len(shape):
            return (-1,) * len(wanted)
        return tuple(map(self._size, wanted, shape))

    def _size(self, axis: str, size: int) -> int:
        """The size that an axis must have: the one that is there, if that is allowed."""
        names = axis.replace("_", str(size)).split("|")
        allowed = [int(n) if n.isdigit() else self.sizes.setdefault(n, size) for n in names]
        return size if size in allowed else allowed[0]

    def _container(
        self, name: str, kind: Any, inner: tuple[Any, ...], saved: Tree, fresh: Any
    ) -> Any:
        """A list, a tuple or a dictionary of values of one type, or a tuple of several types."""
        tag = "list" if kind is deque else kind.__name__
        if not (isinstance(saved, dict) and isinstance(saved.get(tag), list) and len(saved) == 1):
            raise ValueError(f"{name} must be a {tag}, got {checks.show(saved)}")
        items = saved[tag]
        if kind is tuple and inner[-1] is not ...:
            if len(items) != len(inner):
                raise ValueError(f"{name} must be {len(inner)} values, got {len(items)}")
            news = fresh or [None] * len(inner)
            return tuple(map(self.read, [name] * len(inner), inner, items, news))
        first = next(iter(fresh.values() if kind is dict else fresh), None) if fresh else None
        if kind is dict:
            pairs = ((self.read(name, inner[0], key), value) for key, value in items)
            return {key: self._element(name, inner[1], value, first) for key, value in pairs}
        made = (self._element(name, inner[0], item, first) for item in items)
        return deque(made, getattr(fresh, "maxlen", None)) if kind is deque else kind(made)

    def _element(self, name: str, hint: Any, saved: Tree, first: Any) -> Any:
        """One of several values; axes that grow may have other sizes in each."""
        if not isinstance(first, Learned):
            return self.read(name, hint, saved, first if isinstance(first, np.ndarray) else None)
        fresh = first if isinstance(first, Configured) else copy.deepcopy(first)
        return replace(self, sizes=self.named.copy()).read(name, hint, saved, fresh)

    def _object(self, name: str, kind: Any, saved: Tree, fresh: Any) -> Any:
        """An agent, an object that learns, or one with fields."""
        if not isinstance(saved, dict) or "class" not in saved:
            raise ValueError(f"{name} must be a {kind.__name__}, got {checks.show(saved)}")
        if isinstance(fresh, Configured):
            made = self._make(saved)
            problems = [getattr(each, "problem", None) for each in (made, fresh)]
            if type(made) is not type(fresh) or problems[0] != problems[1]:
                raise ValueError(f"{name} must be an agent such as {checks.show(fresh)}")
            return made
        if isinstance(fresh, Learned):
            self._fill(fresh, exact(saved, "class", "learned")["learned"])
            return fresh
        if saved["class"] != kind.__name__ or not has_fields(kind):
            raise ValueError(f"{name} must be a {kind.__name__}, got {checks.show(saved['class'])}")
        given = exact(saved, "class", "arguments")["arguments"]
        made = kind(**self._attributes(kind, [p.name for p in parameters(kind)], given, fresh))
        if hasattr(made, "check_learned"):
            made.check_learned()
        return made


def _member(arms: tuple[Any, ...], saved: Tree) -> Any:
    """The member of a union that a value is of; the first one if its class does not tell."""
    named = saved.get("class") if isinstance(saved, dict) else type(saved).__name__
    for arm in arms:
        plain, _ = _marked(arm)
        if named == (get_origin(plain) or plain).__name__:
            return arm
    return next(arm for arm in arms if arm is not type(None))


def _plain(name: str, kind: Any, saved: Tree, rule: Entries) -> Any:
    """A number, a text, a flag or None in the range that a rule allows."""
    if kind is bool:
        return checks.flag(name, saved)
    if kind is int:
        low, high = max(-LARGEST_WHOLE, rule.low), min(LARGEST_WHOLE, rule.high)
        return checks.integer(name, saved, round(low), round(high))
    if not isinstance(saved, kind or type(None)):
        word = {float: "a number", str: "a text"}.get(kind, "None")
        raise ValueError(f"{name} must be {word}, got {checks.show(saved)}")
    infinite = rule.high == math.inf and (rule.low == -math.inf or saved == math.inf)
    if kind is float and not infinite:
        return checks.real(name, saved, rule.low, min(rule.high, LARGEST_FLOAT))
    return saved


def exact(tree: Tree, *known: str) -> dict[str, Any]:
    """The tree, if it is a dictionary with exactly these names."""
    if not isinstance(tree, dict):
        raise ValueError(f"a state must be a dictionary, got {checks.show(tree)}")
    if set(tree) != set(known):
        missing = ", ".join(sorted(set(known) - set(tree))) or "none"
        unknown = ", ".join(sorted(map(str, set(tree) - set(known)))) or "none"
        raise ValueError(
            f"a state must have exactly the fields {', '.join(known)}; "
            f"missing: {missing}, unknown: {unknown}"
        )
    return tree
