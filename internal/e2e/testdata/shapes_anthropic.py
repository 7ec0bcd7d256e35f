"""Every call shape and every error of the official Anthropic SDK for Python against a gateway; prints what came of them, as JSON."""
import hashlib
import json
import sys
import time

import anthropic

base, model = sys.argv[1], sys.argv[2]
bodies = []


def heard(response):
    arrived = response.headers.get("x-body-sha256")
    if response.request.method == "POST" and arrived:
        bodies.append({"sent": hashlib.sha256(response.request.read()).hexdigest(), "arrived": arrived})


client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
client._client.event_hooks = {"response": [heard]}
messages = [{"role": "user", "content": "Grüße, 漢字, 🙂"}]
tools = [{"name": "weather", "description": "tells it", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
calls, errors, retried = {}, {}, {}


def create(c=client, **more):
    return c.messages.create(**{"model": model, "max_tokens": 16, "messages": messages, **more})


def streamed():
    with client.messages.stream(model=model, max_tokens=16, messages=messages, system="Be brief.") as stream:
        text = "".join(stream.text_stream)
        usage = stream.get_final_message().usage
    return f"{text}|{usage.input_tokens}/{usage.output_tokens}/{usage.cache_read_input_tokens}"


def unary():
    m = create(system=[{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}])
    return f"{m.content[0].text}|{m.usage.input_tokens}/{m.usage.output_tokens}/{m.usage.cache_read_input_tokens}"


shapes = {
    "message": unary,
    "message streamed": streamed,
    "message with tools": lambda: create(tools=tools).content[0].name,
    "message with a picture": lambda: create(messages=[{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}, {"type": "text", "text": "what?"}]}]).content[0].text,
    "beta message": lambda: client.beta.messages.create(model=model, max_tokens=16, messages=messages, betas=["x-2026"]).content[0].text,
    "count of tokens": lambda: str(client.messages.count_tokens(model=model, messages=messages).input_tokens),
}
for name, call in shapes.items():
    try:
        calls[name] = call()
    except Exception as e:
        calls[name] = f"{type(e).__name__}: {e}"[:300]


def fails(name, call):
    try:
        call()
        errors[name] = {"type": "none"}
    except Exception as e:
        body = getattr(e, "body", None)
        code = (body.get("error") or {}).get("code") if isinstance(body, dict) else None
        errors[name] = {"type": type(e).__name__, "status": getattr(e, "status_code", 0), "code": str(code), "message": str(e)[:300]}


for status in (400, 401, 403, 404, 413, 429, 500, 503, 529):
    fails(f"pod {status}", lambda: create(extra_headers={"x-want": f"status={status}"}))
fails("unknown model", lambda: create(model="nobody"))
fails("body too large", lambda: create(messages=[{"role": "user", "content": "a" * (3 << 20)}]))
fails("no endpoint", lambda: create(model="empty"))
fails("dead endpoint", lambda: create(model="dead"))
fails("saturated", lambda: create(model="full"))
fails("timeout", lambda: create(client.with_options(timeout=0.5), extra_headers={"x-want": "sleep"}))


def retries(name, call):
    began = time.monotonic()
    try:
        outcome = call(client.with_options(max_retries=1))
    except Exception as e:
        outcome = type(e).__name__
    retried[name] = {"outcome": outcome, "seconds": time.monotonic() - began}


retries("pod 429", lambda c: create(c, extra_headers={"x-want": f"once=429;after=2;key={sys.argv[3]}-a"}).content[0].text)
retries("no endpoint", lambda c: create(c, model="empty").id)
retries("saturated", lambda c: create(c, model="full").id)

json.dump({"version": anthropic.__version__, "calls": calls, "errors": errors, "retried": retried, "bodies": bodies}, sys.stdout)
