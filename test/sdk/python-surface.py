"""What the Python SDK shows, as JSON: of each class its members, of each method its arguments."""

import inspect
import json
import pkgutil
import re
from importlib import import_module

import rouse
from rouse import inputs, options


def arguments(function):
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            kind = re.fullmatch(r"Unpack\[(\w+)\]", parameter.annotation).group(1)
            names += list((getattr(inputs, kind, None) or getattr(options, kind)).__annotations__)
        elif parameter.name not in ("self", "cls"):
            names.append(parameter.name)
    return sorted(names)


def members(cls):
    found = {}
    for base in reversed(cls.__mro__[:-1]):
        if base.__module__.partition(".")[0] != "rouse" or getattr(base, "_is_protocol", False):
            continue
        for name, value in vars(base).items():
            if name.startswith("_"):
                continue
            value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            found[name] = arguments(value) if inspect.isfunction(value) else None
        found.update((name, None) for name in getattr(base, "__annotations__", {}) if not name.startswith("_"))
        is_written = "__init__" in vars(base) and not hasattr(base, "__dataclass_fields__")
        made = inspect.getsource(base.__init__) if is_written else ""
        found.update((name, None) for name in re.findall(r"^\s+self\.([a-z]\w*)(?::[^=]*)? = ", made, re.MULTILINE))
        if made:
            found["__init__"] = arguments(base.__init__)
    return found


def half(package, prefix):
    surface = {}
    for module in pkgutil.iter_modules(package.__path__):
        for name, value in vars(import_module(f"{package.__name__}.{module.name}")).items():
            if inspect.isclass(value) and value.__module__.startswith(package.__name__) and name.startswith(prefix):
                surface[name[len(prefix) :]] = members(value)
    return surface


shared = {}
for name, value in vars(rouse).items():
    if inspect.isclass(value) and not re.match(r"rouse\._", value.__module__):
        shared[name] = members(value)
    elif inspect.isfunction(value):
        shared[name] = arguments(value)
print(
    json.dumps(
        {
            "sync": half(import_module("rouse._sync"), ""),
            "async": half(import_module("rouse._async"), "Async"),
            "shared": shared,
            "names": sorted(rouse.__all__),
        }
    )
)
