"""Find the last collectives of a rank, and what each thread waits for, from its Python objects.

rank_site.py runs this file in its own thread when the host asks: only inside the process can the
lock, thread or future be identified. Nothing here calls a method of the user's objects.
"""

import ast
import inspect
import json
import linecache
import re
import sys
import threading
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator
    from types import FrameType, ModuleType
    from typing import Any

    Stacks = dict[int, list[FrameType]]  # frames by thread, the innermost first
    Place = dict[str, Any]  # path, line, function
    Holders = dict[int, tuple[int, Place]]  # thread and place by the id of the lock it holds
    Row = dict[str, Any]  # a ThreadReport of common/rank_looks.py

LAST, GROUPS, SHAPES = 6, 32, 8  # collectives of each group; groups; tensors of a collective
FRAMES, TASKS, TEXT = 60, 8, 60
LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3\.\d+/|^<")
LOCK, RLOCK = type(threading.Lock()), type(threading.RLock())
# Modules whose objects other threads release, set, fill or end
SYNC = ("/threading.py", "/queue.py", "/concurrent/futures/_base.py", "/multiprocessing/pool.py")
LOOPS = ("/selectors.py", "/subprocess.py", "/asyncio/base_events.py")
trees = {}  # type: dict[tuple[str, int], ast.Module]  # of functions, by path and first line


def answer(distributed: "ModuleType") -> str:
    """Return a RankAnswer of common/rank_looks.py as JSON."""
    cpu_time = getattr(time, "thread_time", float)  # not in Python 3.6
    start, waits = cpu_time(), []
    try:
        waits = describe_threads(threading.get_ident())
    except Exception:
        pass  # the stacks say where they are
    collectives, why = last_collectives(distributed)
    cpu = max(0.0, cpu_time() - start)
    row = {"collectives": collectives, "why": why, "waits": waits, "cpu": cpu}
    return json.dumps(row, default=str)


def last_collectives(distributed: "ModuleType") -> "tuple[dict[str, Any] | None, str]":
    """Return ({last, groups} from gloo's flight recorder, ""), or (None, why there are none)."""
    try:
        from torch._C import _distributed_c10d  # type: ignore

        if not hasattr(_distributed_c10d, "_dump_fr_trace_json"):
            return None, "torch too old"
        entries = json.loads(_distributed_c10d._dump_fr_trace_json()).get("entries") or []
        by_group = {}  # type: dict[str, list[dict[str, Any]]]
        for entry in entries:
            row = describe_collective(entry, time.time())
            known = type(row["seq"]) is int and row["op"]
            if known and not entry.get("is_p2p"):  # gloo does not record send and recv
                by_group.setdefault(row["group"], []).append(row)
        rows = [row for name in sorted(by_group)[:GROUPS] for row in by_group[name][-LAST:]]
        return {"last": rows, "groups": groups_of(distributed)}, ""
    except Exception:
        return None, "silent"


def describe_collective(entry: "dict[str, Any]", now: float) -> "dict[str, Any]":
    group = entry.get("process_group") or [entry.get("pg_id")]
    created = entry.get("time_created_ns") or 0
    return {
        "group": str(group[0]),
        "name": str(group[-1]),
        "seq": entry.get("collective_seq_id"),
        "op": str(entry.get("profiling_name") or "").rpartition(":")[2],
        "sizes": (entry.get("input_sizes") or [])[:SHAPES],
        "dtypes": (entry.get("input_dtypes") or [])[:SHAPES],
        "done": bool(entry.get("retired")) or entry.get("state") == "completed",
        "age": round(max(0.0, now - created / 1e9), 1) if created else None,
    }


def groups_of(distributed: "ModuleType") -> "dict[str, Any]":
    """Return {name: {name, ranks}}: gloo's records have only the names."""
    try:
        world = distributed._world
        members = list(world.pg_group_ranks.items())[:GROUPS]
        return {
            world.pg_names.get(group, ""): {
                "name": getattr(group, "group_desc", "") or "",
                "ranks": sorted(ranks),
            }
            for group, ranks in members
        }
    except Exception:
        return {}  # another version of torch keeps them elsewhere


def describe_threads(me: int) -> "list[Row]":
    """Return a row for each other thread. Idents are text, as faulthandler writes them. `place`: of
    its innermost frame; without it, the thread went on while this looked and may wait elsewhere."""
    stacks = {ident: stack_of(top) for ident, top in sys._current_frames().items() if ident != me}
    starts = {ident: (stack[0].f_lasti, own_place(stack)) for ident, stack in stacks.items()}
    threads = dict(threading._active)  # type: ignore  # enumerate() takes a lock
    holders = held_locks(stacks)
    rows = []
    for ident, stack in stacks.items():
        thread = threads.get(ident)
        row = {"id": name_of(ident), "name": getattr(thread, "name", "")}
        row["native"] = getattr(thread, "native_id", None)
        try:
            row.update(wait_of(stack, stacks, holders))
        except Exception:
            pass  # an object of an unexpected kind
        if stack[0].f_lasti == starts[ident][0]:
            row["place"] = starts[ident][1]
        rows.append(row)
    return rows


def name_of(ident: int) -> str:
    return "%016x" % (ident & (1 << 64) - 1)


def stack_of(frame: "FrameType | None") -> "list[FrameType]":
    frames = []  # type: list[FrameType]
    while frame is not None and len(frames) < FRAMES:
        frames.append(frame)
        frame = frame.f_back
    return frames


def place_of(frame: "FrameType", line: "int | None" = None) -> "Place":
    line = line or frame.f_lineno or 0
    return {"path": frame.f_code.co_filename, "line": line, "function": frame.f_code.co_name}


def own_place(stack: "list[FrameType]") -> "Place":
    """Return the place of the innermost frame that python_stacks.py keeps."""
    kept = (f for f in stack if not f.f_code.co_filename.startswith("<frozen importlib"))
    return place_of(next(kept, stack[0]))


def wait_of(stack: "list[FrameType]", stacks: "Stacks", holders: "Holders") -> "Row":
    """Return what a thread waits for, as fields of its row: call, what, by, state."""
    row = {}
    if is_wrapper(stack[0]):
        stack = stack[1:]
    node = find_pending_call(stack[0])
    if isinstance(node, ast.Call):
        row["call"] = str(called_name(stack[0], node.func))
    for frame in stack:
        owner, function = frame.f_locals.get("self"), frame.f_code.co_name  # type: Any, str
        path = frame.f_code.co_filename
        if not path.endswith(LOOPS):
            break
        if path.endswith("/subprocess.py") and hasattr(owner, "pid"):
            return dict(row, what="process", child=owner.pid or 0)
        if path.endswith("/asyncio/base_events.py") and function == "run_forever":
            return dict(row, what="asyncio", tasks=waiting_tasks(owner))
    outer = None
    for frame in stack:
        if not frame.f_code.co_filename.endswith(SYNC):
            break
        names = frame.f_locals
        if "self" in names or frame.f_code.co_name in ("_shutdown", "as_completed"):
            outer = frame
    if outer is not None:
        row.update(wait_in_library(outer, stack[0], stacks, holders))
    if "what" not in row and node is not None:
        row.update(wait_for_lock(stack[0], node, holders))
    return row


def is_wrapper(frame: "FrameType") -> bool:
    """Recognize the `with` of a Condition or of multiprocessing, which takes the lock inside it."""
    return frame.f_code.co_name == "__enter__" and frame.f_code.co_filename.endswith(SYNC)


def wait_in_library(
    frame: "FrameType", inner: "FrameType", stacks: "Stacks", holders: "Holders"
) -> "Row":
    """Describe a wait inside threading, queue, futures or a pool, by the waited-for object."""
    owner, function = frame.f_locals.get("self"), frame.f_code.co_name  # type: Any, str
    if function == "_shutdown" and owner is None:
        alive = [thread for thread in dict(threading._active).values() if not thread.daemon]  # type: ignore
        idents = [thread.ident for thread in alive if thread is not threading.main_thread()]
        return {"what": "exit", "by": name_of(idents[0])} if idents else {}
    if function == "as_completed":
        futures = frame.f_locals.get("pending", ())
        pending = [future for future in futures if future._state != "FINISHED"]
        return {"what": "future", "by": runner_of(pending[0], stacks)} if pending else {}
    kind = type(owner)
    if isinstance(owner, threading.Thread) and function == "join":
        state = "" if owner.ident else "not started"
        return {"what": "thread", "by": name_of(owner.ident or 0), "state": state}
    if kind.__module__ == "concurrent.futures._base":
        return {"what": "future", "state": str(owner._state), "by": runner_of(owner, stacks)}
    if kind.__module__ == "queue":
        if type(inner.f_locals.get("self")) is not threading.Condition:
            return {}  # the thread waits for the queue's own lock
        return {"what": "queue", "state": "full" if function == "put" else "empty"}
    if kind.__module__ == "multiprocessing.pool":
        return {"what": "pool"}
    if kind.__module__ != "threading" or inner.f_code.co_name not in ("wait", "wait_for"):
        return {}
    if kind.__name__ == "Barrier":
        state = "%d of %d" % (owner._count, owner._parties)
        return {"what": "barrier", "state": state}
    if "Semaphore" in kind.__name__:
        return dict(what="semaphore", **find_lock_holder(owner, holders))
    return {"what": {"Event": "event", "Condition": "condition"}.get(kind.__name__, "")}


def runner_of(future: object, stacks: "Stacks") -> str:
    """Return the thread that computes a future of a ThreadPoolExecutor, or ""."""
    for ident, stack in stacks.items():
        for frame in stack:
            if frame.f_code.co_filename.endswith("/concurrent/futures/thread.py"):
                item = frame.f_locals.get("self")
                if getattr(item, "future", None) is future:
                    return name_of(ident)
    return ""


def waiting_tasks(loop: "Any") -> "list[Place]":
    """Return where the tasks of an event loop wait: the innermost frames of user coroutines."""
    places = []  # type: list[Place]
    for task in sys.modules["asyncio"].all_tasks(loop):
        awaited, place = task.get_coro(), None
        while awaited is not None and len(places) < TASKS:
            frame = getattr(awaited, "cr_frame", None)
            if frame is not None and "/asyncio/" not in frame.f_code.co_filename:
                place = place_of(frame)
            awaited = getattr(awaited, "cr_await", None)
        places += [place] if place else []
    return sorted(places, key=lambda place: (place["path"], place["line"]))[:TASKS]


def wait_for_lock(frame: "FrameType", node: "ast.expr", holders: "Holders") -> "Row":
    """Describe a wait in which a thread takes a lock itself: `with lock:` or `lock.acquire()`."""
    if isinstance(node, ast.Call):
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr not in ("acquire", "__enter__"):
            return {}
        node = function.value
    lock = lock_of(value_of(frame, node))
    if lock is None:
        return {}
    module = frame.f_globals.get("__name__", "").partition(".")[0]
    is_user_code = not LIBRARY.search(frame.f_code.co_filename)
    description = {"text": text_of(node)} if is_user_code else {"state": module}
    return dict(description, what="lock", **find_lock_holder(lock, holders))


def lock_of(value: object) -> "object | None":
    """Return the lock or semaphore, or the lock of a condition; None for other values."""
    if type(value) is threading.Condition:
        value = value._lock  # type: ignore
    return value if isinstance(value, (LOCK, RLOCK, threading.Semaphore)) else None


def find_lock_holder(lock: object, holders: "Holders") -> "Row":
    """Return {by: thread, at: place} of a lock's holder, {} if it is not known."""
    ident, place = holders.get(id(lock), (None, None))
    if isinstance(lock, RLOCK):
        owner = repr(lock).partition("owner=")[2].split(" ")[0]
        if not owner.isdigit() or owner == "0":
            return {}
        if ident != int(owner):
            ident, place = int(owner), None
    return {"by": name_of(ident), "at": place} if ident else {}


def held_locks(stacks: "Stacks") -> "Holders":
    """Return {id of a lock: (ident of the thread that holds it, where it took it)}."""
    holders = {}  # type: Holders
    for ident, stack in stacks.items():
        released = {id(lock_of(f.f_locals.get("self"))) for f in stack if is_wait(f)}
        for frame in stack:
            if LIBRARY.search(frame.f_code.co_filename):
                continue
            try:
                locks = list(taken_in(frame))
            except Exception:
                continue  # the source is missing, or this Python cannot parse it
            for value, line in locks:
                if id(value) not in released and not (value is None or id(value) in holders):
                    holders[id(value)] = ident, place_of(frame, line)
    return holders


def is_wait(frame: "FrameType") -> bool:
    """Recognize Condition.wait(), which releases the lock until it is notified."""
    owner = frame.f_locals.get("self")
    return frame.f_code.co_name == "wait" and type(owner) is threading.Condition


def taken_in(frame: "FrameType") -> "Iterator[tuple[object, int]]":
    """Yield (lock or semaphore, line) of the `with` blocks and acquire() calls a frame is in."""
    line = frame.f_lineno
    for node in ast.walk(function_of(frame)):
        if isinstance(node, ast.With) and node.lineno < node.body[0].lineno <= line:
            for item in node.items if line <= last_line(node) else []:
                yield lock_of(value_of(frame, item.context_expr)), node.lineno
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for value, taken_at in find_acquired_locks(
                frame, block if isinstance(block, list) else [], line
            ):
                yield value, taken_at


def find_acquired_locks(
    frame: "FrameType", block: "list[ast.stmt]", line: int
) -> "Iterator[tuple[object, int]]":
    """Yield locks from `lock.acquire()` earlier in the block, without a release() in between."""
    earlier = [each for each in block if last_line(each) < line]
    if not any(each.lineno <= line <= last_line(each) for each in block):
        return
    acquired = {}  # type: dict[int, tuple[object, int]]
    for statement in earlier:
        for part in ast.walk(statement):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                value = lock_of(value_of(frame, part.func.value))
                if part.func.attr == "release":
                    acquired.pop(id(value), None)
                elif part is getattr(statement, "value", None) and is_acquire(part):
                    acquired[id(value)] = value, part.lineno
    for pair in acquired.values():
        yield pair


def is_acquire(call: "ast.Call") -> bool:
    """Recognize an acquire() that blocks: others may return False."""
    return getattr(call.func, "attr", "") == "acquire" and not call.args and not call.keywords


def function_of(frame: "FrameType") -> "ast.AST":
    """Return the innermost function, or the module, around the line that a frame is in."""
    line, tree = frame.f_lineno, tree_of(frame)
    best = None
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if node.name == frame.f_code.co_name and node.lineno <= line <= last_line(node):
            best = node  # inner functions come later
    if best is None and frame.f_code.co_name != "<module>":
        raise ValueError("a lambda, or a source that was edited since")
    return best or tree


def tree_of(frame: "FrameType") -> "ast.Module":
    """Return the parsed source of one function: the module of torch.distributed has 6,000 lines."""
    path, first_line = frame.f_code.co_filename, frame.f_code.co_firstlineno
    if (path, first_line) not in trees:
        lines, offset = linecache.getlines(path, frame.f_globals), 0
        if frame.f_code.co_name != "<module>":
            lines, offset = inspect.getblock(lines[first_line - 1 :]), first_line - 1
        if lines and lines[0][:1].isspace():  # a method: keep the columns
            lines, offset = ["if 1:\n"] + lines, offset - 1
        tree = ast.parse("".join(lines))
        trees[path, first_line] = ast.increment_lineno(tree, offset)
    return trees[path, first_line]


def last_place(node: "ast.AST") -> "tuple[int, int]":
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", -1)


def last_line(node: "ast.AST") -> int:
    end = getattr(node, "end_lineno", None)  # not in Python 3.7
    return end or max(getattr(part, "lineno", 0) for part in ast.walk(node))


def find_pending_call(frame: "FrameType") -> "ast.expr | None":
    """Return the call, or the lock of a `with`, in which a frame is; None if uncertain."""
    try:
        function = function_of(frame)
    except Exception:
        return None
    line, (start, end) = frame.f_lineno, position_of(frame)
    nodes = []  # type: list[ast.expr]
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if start is None or end is None:
                nodes += [node] if node.lineno == line else []
            elif last_place(node) == end and (node.lineno, node.col_offset) <= start:
                return node  # a node that starts later: a `with` ends there
        elif isinstance(node, ast.With):
            nodes += [i.context_expr for i in node.items if i.context_expr.lineno == line]
    return nodes[0] if len(nodes) == 1 else None


def position_of(
    frame: "FrameType",
) -> "tuple[tuple[int, int], tuple[int, int]] | tuple[None, None]":
    """Return (line, column) of the start and end of the evaluated expression, None if unknown."""
    positions = getattr(frame.f_code, "co_positions", None)  # Python 3.11
    if positions is not None and frame.f_lasti >= 0:
        for number, (line, end_line, column, end_column) in enumerate(positions()):
            if number == frame.f_lasti // 2 and end_line and end_column is not None:
                return (line, column), (end_line, end_column)
    return None, None


def value_of(frame: "FrameType", node: "ast.AST") -> "Any":
    """Evaluate a name, an attribute or an item without running code of the object; else None."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return names[node.id]
        return getattr(sys.modules["builtins"], node.id, None)
    if isinstance(node, ast.Attribute):
        owner = value_of(frame, node.value)
        if type(owner) is type(sys):
            return vars(owner).get(node.attr)
        try:
            values = object.__getattribute__(owner, "__dict__")
        except AttributeError:
            values = {}
        return values.get(node.attr) if type(values) is dict else None
    if isinstance(node, ast.Subscript):
        owner, key = value_of(frame, node.value), node.slice
        key = getattr(key, "value", key)  # ast.Index of Python 3.8
        key = value_of(frame, key) if isinstance(key, ast.Name) else getattr(key, "value", key)
        if type(owner) in (dict, list, tuple) and type(key) in (str, int):
            return owner[key]
    return None


def called_name(frame: "FrameType", node: "ast.AST") -> str:
    """Return `sqlite3.Connection.execute` for a function written in C; "" for one in Python, and
    for an object that is called and has no name."""
    if isinstance(node, ast.Attribute):
        owner, value = value_of(frame, node.value), value_of(frame, node)
        if owner is None:
            return text_of(node)
        if type(value) is type(len) and type(getattr(value, "__self__", None)) is type(sys):
            return "%s.%s" % (value.__module__, value.__name__)
        if type(owner) is type(sys):
            name = owner.__name__ + "." + node.attr
            return "" if hasattr(vars(owner).get(node.attr), "__code__") else name
        kind = owner if isinstance(owner, type) else type(owner)
        name = "%s.%s.%s" % (kind.__module__, kind.__name__, node.attr)
        return name.replace("builtins.", "")
    value = value_of(frame, node)
    if value is None or hasattr(value, "__code__"):
        return ""
    name, module = getattr(value, "__name__", ""), getattr(value, "__module__", None)
    return "%s.%s" % (module, name) if module and name else name


def text_of(node: "ast.AST") -> str:
    """Return the source text of a node, such as `self.lock`; "" before Python 3.9."""
    unparse = getattr(ast, "unparse", None)
    return unparse(node)[-TEXT:] if unparse else ""
