"""Wrap functions whose call lasts until the last item of a generator is read, because the tool runs in there.

``lasting_tool``: a method that may return a generator in its result. The framework joins the items to a text for its
model, so a sentence that is due is one more item. ``lasting_stream``: an async generator whose last item is the result.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, aclosing, closing
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any

from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.runtime import active_runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from otel_loopguard.instrumentation.call import GuardedCall
    from otel_loopguard.instrumentation.targets import Items, Original, ToolTarget

    OpenCall = Callable[..., GuardedCall | None]


def lasting_tool(open_call: OpenCall, target: ToolTarget, items: Items, original: Original) -> Callable[..., Any]:
    """Wrap a plain method."""
    function = original.unbound

    def guarded(*given: Any, **kwargs: Any) -> Any:
        call = open_call(active_runtime.instrumented, target.adapter, given[0], given[1:], kwargs)
        if call is None:
            return function(*given, **kwargs)
        try:
            with ExitStack() as stack:
                stack.enter_context(call)
                if call.answered:
                    return call.answer
                result = function(*given, **kwargs)
                source = None
                with call.runtime.shield("generator.item"):
                    source = items.find(result)
                if source is None:
                    return call.result(result)
                stack.pop_all()
                return _lasting(call, items, given[0], result, source)
        except BaseException:
            call.cut_short()
            raise

    return guarded


def lasting_tool_async(open_call: OpenCall, target: ToolTarget, items: Items, original: Original) -> Callable[..., Any]:
    """Wrap an async method, whose generator may be plain or async."""
    function = original.unbound

    async def guarded(*given: Any, **kwargs: Any) -> Any:
        call = open_call(active_runtime.instrumented, target.adapter, given[0], given[1:], kwargs)
        if call is None:
            return await function(*given, **kwargs)
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(call)
                if call.answered:
                    return call.answer
                result = await function(*given, **kwargs)
                source = None
                with call.runtime.shield("generator.item"):
                    source = items.find(result)
                if source is None:
                    return await call.aresult(result)
                stack.pop_all()
                return _lasting(call, items, given[0], result, source)
        except BaseException:
            call.cut_short()
            raise

    return guarded


def lasting_stream(open_call: OpenCall, target: ToolTarget, original: Original) -> Callable[..., Any]:
    """Wrap an async generator method or function. Its last item is passed on before the end of the call is judged."""
    function, is_method = original.unbound, original.get is not None

    async def guarded(*given: Any, **kwargs: Any) -> AsyncIterator[Any]:
        instance, args = (given[0], given[1:]) if is_method and given else (None, given)
        call = open_call(active_runtime.instrumented, target.adapter, instance, args, kwargs)
        if call is None:
            async with aclosing(function(*given, **kwargs)) as source:
                async for item in source:
                    yield item
            return
        read, last = _Read(call), None
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(call)
                read.suspend()
                if call.answered:
                    yield call.answer
                    return
                source = await stack.enter_async_context(aclosing(function(*given, **kwargs)))
                while True:
                    read.resume()
                    try:
                        last = await anext(source)
                    except StopAsyncIteration:
                        await call.aresult(last)
                        return
                    read.suspend()
                    yield last
        except BaseException:
            call.cut_short()
            raise

    return guarded


def _lasting(call: GuardedCall, items: Items, instance: Any, result: Any, source: Any) -> Any:
    """Leave the call open, and put the generator that ends it in place of the tool's."""
    with call.runtime.shield("generator.item"):
        call.suspend()
        follow = _async_items if isinstance(source, AsyncGeneratorType) else _items
        items.put(instance, result, follow(call, items, source))
    return result


class _Read:
    """The call of a generator, which is current only while the tool makes an item."""

    def __init__(self, call: GuardedCall) -> None:
        self._call = call

    def resume(self) -> None:
        with self._call.runtime.shield("generator.item"):
            self._call.resume()

    def suspend(self) -> None:
        with self._call.runtime.shield("generator.item"):
            self._call.suspend()


class _ReadText(_Read):
    """The call of a generator whose items are the model's text."""

    def __init__(self, call: GuardedCall, items: Items) -> None:
        super().__init__(call)
        self._items = items
        self._text = ""

    def add(self, item: Any) -> None:
        with self._call.runtime.shield("generator.item"):
            self._text += self._items.said(item)
        self.suspend()

    def result(self) -> Any:
        return self._items.result_of(self._text)

    def rest(self, longer: Any) -> str:
        """Return the sentence that was added to the result."""
        return self._items.text_in(longer)[len(self._text) :]

    def inner_abort(self, error: RunStopped) -> str:
        """Return the text of an error that has ended a run inside this call; raise any other."""
        if not self._call.take_inner_abort(error):
            raise error
        return str(error)


def _items(call: GuardedCall, items: Items, source: Any) -> Iterator[Any]:
    read, sentence = _ReadText(call, items), ""
    try:
        with ExitStack() as stack:
            stack.push(call.__exit__)
            stack.enter_context(closing(source))
            while True:
                read.resume()
                try:
                    item = next(source)
                except StopIteration:
                    with call.runtime.shield("generator.end"):
                        sentence = read.rest(call.result(read.result()))
                    break
                read.add(item)
                yield item
    except RunStopped as error:
        sentence = read.inner_abort(error)
    if sentence:
        yield sentence


async def _async_items(call: GuardedCall, items: Items, source: Any) -> AsyncIterator[Any]:
    read, sentence = _ReadText(call, items), ""
    try:
        async with AsyncExitStack() as stack:
            stack.push_async_exit(call.__aexit__)
            await stack.enter_async_context(aclosing(source))
            while True:
                read.resume()
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    with call.runtime.shield("generator.end"):
                        sentence = read.rest(await call.aresult(read.result()))
                    break
                read.add(item)
                yield item
    except RunStopped as error:
        sentence = read.inner_abort(error)
    if sentence:
        yield sentence
