"""A process that cannot know what another one has changed refuses nothing: its third equal read may be a new one."""

from __future__ import annotations

import pytest

from tests.store.processes import LONG, World

STORES = {
    "well": (None, None),
    "away while the other writes": ("away", None),
    "away after the other's write": (None, "away"),
    "empty after the other's write": (None, "empty"),
    "a replica that lacks the other's write": (None, "fail_over"),
}


def third_read(world, reader, writer, before=None, after=None):
    """Read a file twice, have another process write it (if there is one), and read it again. True if that read runs."""
    for _ in range(2):
        world.call(reader, "read_file", LONG + "version 1", path="f")
        world.now += 1
    if before is not None:
        getattr(world.store, before)()
    if writer is not None:
        world.call(writer, "write_file", "ok", path="f", text="version 2")
        world.now += 1
    if after is not None:
        getattr(world.store, after)()
    ran, _ = world.call(reader, "read_file", LONG + "version 2", path="f")
    return ran


@pytest.mark.parametrize("on_loop", [False, True], ids=["in a thread", "in sync code on an event loop"])
@pytest.mark.parametrize("store", STORES)
def test_a_read_after_the_write_of_another_process_runs(store, on_loop):
    """Whatever the store is like, and whether or not the reader can wait for it."""
    world = World(2, on_loop=on_loop)
    assert third_read(world, *world.processes, *STORES[store])


def test_a_read_after_the_write_of_its_own_process_runs():
    """The processes of a shared turn are measured by it."""
    world = World(1)
    assert third_read(world, world.processes[0], world.processes[0])


@pytest.mark.parametrize("on_loop", [False, True], ids=["in a thread", "in sync code on an event loop"])
def test_a_read_after_no_write_is_refused(on_loop):
    """So the reads above run because of the write."""
    world = World(2, on_loop=on_loop)
    assert not third_read(world, world.processes[0], None)
