"""Runs `pellucid` commands in forked children, each with a fault.

A script of its own, because a child is forked from a process that has loaded everything and has
started no thread: a command then takes a second in place of ten. It reads a JSON job a line:

    arguments   of the command
    folder      the directory whose changes are counted, as Python's audit events
    fault       None, or a kind with its moment:
        {"kind": "kill" | "term", "after": seconds}      a signal from outside
        {"kind": "kill" | "term", "change": n}           a signal at the n-th change of the folder
        {"kind": "full" | "readonly", "change": n}       from the n-th change on, none succeeds
        {"kind": "short", "change": n, "bytes": b}       from there on, files end after b bytes

and answers with {"status": ..., "changes": ..., "said": ...}: the exit status, negative for a
signal, how many changes there were, and what the command printed.
"""

import errno
import json
import os
import resource
import signal
import sys
import threading
import time

SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}
MADE = ("open", "os.mkdir", "os.rename")
"""Changes that a full disk refuses; it lets things be removed."""
REMOVED = ("os.remove", "os.rmdir", "shutil.rmtree")


def changes_folder(event, arguments, folder):
    """Whether an audit event changes something below the folder."""
    if event == "open":
        path, mode, flags = arguments
        writes = any(letter in (mode or "") for letter in "wax+")
        if not writes and not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)):
            return False
    elif event in MADE or event in REMOVED:
        path = arguments[0]
    else:
        return False
    return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(folder)


def arm(fault, folder, changes):
    """Count the changes of the folder, and let the fault happen at its own."""
    kind, at = (fault["kind"], fault.get("change")) if fault else (None, None)

    def hook(event, arguments):
        if not changes_folder(event, arguments, folder):
            return
        changes[0] += 1
        os.pwrite(changes[1], str(changes[0]).encode(), 0)
        if at is None or changes[0] < at:
            return
        if kind in SIGNALS and changes[0] == at:
            os.kill(os.getpid(), SIGNALS[kind])
        elif kind == "full" and event in MADE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif kind == "readonly":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        elif kind == "short":
            resource.setrlimit(resource.RLIMIT_FSIZE, (fault["bytes"], resource.RLIM_INFINITY))

    sys.addaudithook(hook)


def child(job, counter, out):
    os.dup2(out, 1)
    os.dup2(out, 2)
    arm(job["fault"], job["folder"], [0, counter])
    status = main(job["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def answer(job):
    counter = os.memfd_create("changes")
    own, out = os.pipe()  # which no limit of file sizes ends
    pid = os.fork()
    if pid == 0:
        try:
            child(job, counter, out)
        finally:
            os._exit(70)  # no exception of a child may reach the loop below
    os.close(out)
    said = []
    reader = threading.Thread(target=lambda: said.extend(chunks_of(own)))
    reader.start()
    fault = job["fault"] or {}
    if "after" in fault:
        ends = time.monotonic() + fault["after"]
        while time.monotonic() < ends and not has_ended(pid):
            time.sleep(0.005)
        os.kill(pid, SIGNALS[fault["kind"]])  # a child that has ended waits to be collected
    _, status = os.waitpid(pid, 0)
    reader.join()
    changes = os.pread(counter, 20, 0)
    os.close(counter)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "changes": int(changes or 0),
        "said": b"".join(said).decode("utf-8", "replace"),
    }


def chunks_of(pipe):
    while chunk := os.read(pipe, 1 << 16):
        yield chunk
    os.close(pipe)


def has_ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


if __name__ == "__main__":
    import timm.optim.lars
    import torchvision.transforms  # what commands load late

    import pellucid.embed
    import pellucid.evaluate.evaluation
    import pellucid.evaluate.table
    import pellucid.pretraining
    from pellucid.cli import main

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
