"""The standard library's `dataclass`, whose methods are compiled when they are first called.

The original compiles six methods for each class when its module is imported, 0.3 ms: a `run`
imports 270 classes, and that was a third of what it imports. Takes frozen and eq, nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from dataclasses import MISSING, FrozenInstanceError

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        if cls is None:
            return lambda found: _prepared(found, frozen, eq)
        return _prepared(cls, frozen, eq)

    def _prepared(cls, frozen, eq):
        own = set(vars(cls))
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # else the original would look for a signature
        dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        if "__init__" not in own:
            _later(cls, "__init__", _init)
        if "__repr__" not in own:
            _later(cls, "__repr__", _repr)
        if eq:
            if "__eq__" not in own:
                _later(cls, "__eq__", _eq)
            if "__hash__" not in own:
                if frozen:
                    _later(cls, "__hash__", _hash)
                else:
                    cls.__hash__ = None
        if frozen:
            _freeze(cls)
        return cls

    def _later(cls, name, make):
        def first(self, *args, **kwargs):
            method = make(cls)
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)  # in one step: another thread gets this one or that one
            return method(self, *args, **kwargs)

        setattr(cls, name, first)

    def _compiled(text, known):
        exec(text, known)
        return known["method"]

    def _init(cls):
        known, taken, done = {"MISSING": MISSING}, [], []
        for field in dataclasses.fields(cls):
            name, value = field.name, field.name
            if field.default_factory is not MISSING:
                known[f"make_{name}"] = field.default_factory
                taken += [f"{name}=MISSING"] if field.init else []
                value = f"make_{name}()"
                if field.init:
                    value += f" if {name} is MISSING else {name}"
            elif field.default is not MISSING:
                known[f"default_{name}"] = field.default
                taken += [f"{name}=default_{name}"] if field.init else []
                value = name if field.init else f"default_{name}"
            elif field.init:
                taken.append(name)
            else:
                continue
            done.append(f"    __own__[{name!r}] = {value}\n")
        if hasattr(cls, "__post_init__"):
            done.append("    self.__post_init__()\n")
        head = f"def method(self, {', '.join(taken)}):\n    __own__ = self.__dict__\n"
        return _compiled(head + "".join(done), known)

    def _repr(cls):
        shown = [f"{f.name}={{self.{f.name}!r}}" for f in dataclasses.fields(cls) if f.repr]
        text = f'f"{{self.__class__.__qualname__}}({", ".join(shown)})"'
        return _compiled(f"def method(self):\n    return {text}\n", {})

    def _values(of, fields):
        return f"({''.join(f'{of}.{field.name}, ' for field in fields)})"

    def _eq(cls):
        fields = [f for f in dataclasses.fields(cls) if f.compare]
        same = f"{_values('self', fields)} == {_values('other', fields)}"
        text = f"{same} if other.__class__ is self.__class__ else NotImplemented"
        return _compiled(f"def method(self, other):\n    return {text}\n", {})

    def _hash(cls):
        fields = [f for f in dataclasses.fields(cls) if (f.compare if f.hash is None else f.hash)]
        return _compiled(f"def method(self):\n    return hash({_values('self', fields)})\n", {})

    def _freeze(cls):
        names = frozenset(f.name for f in dataclasses.fields(cls))

        def __setattr__(self, name, value):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def __delattr__(self, name):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
