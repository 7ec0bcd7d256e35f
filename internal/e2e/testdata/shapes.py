"""Every call shape and every error of the official OpenAI SDK for Python against a gateway; prints what came of them, as JSON."""
import hashlib
import io
import json
import sys
import time

import openai

base, model = sys.argv[1], sys.argv[2]
bodies = []


def heard(response):
    arrived = response.headers.get("x-body-sha256")
    if response.request.method == "POST" and arrived:
        bodies.append({"sent": hashlib.sha256(response.request.read()).hexdigest(), "arrived": arrived})


http = openai.DefaultHttpx2Client(event_hooks={"response": [heard]})
client = openai.OpenAI(base_url=base + "/v1", api_key="none", http_client=http, max_retries=0)
messages = [{"role": "user", "content": "Grüße, 漢字, 🙂"}]
picture = [{"role": "user", "content": [
    {"type": "text", "text": "What is it?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]}]
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
calls, errors, retried = {}, {}, {}


def chat_text(**more):
    return client.chat.completions.create(model=model, **{"messages": messages, **more}).choices[0].message.content


def chat_stream(**more):
    text, usage = "", None
    for chunk in client.chat.completions.create(model=model, messages=messages, stream=True, stream_options={"include_usage": True}, **more):
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
        usage = chunk.usage or usage
    return f"{text}|{usage.prompt_tokens}/{usage.completion_tokens}/{usage.prompt_tokens_details.cached_tokens}"


def parsed():
    class City(openai.BaseModel):
        name: str
    return client.chat.completions.parse(model=model, messages=messages, response_format=City, extra_headers={"x-want": "json"}).choices[0].message.parsed.name


def responses_stream():
    text, end = "", ""
    for event in client.responses.create(model=model, input="hello", stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            end = f"{event.response.usage.input_tokens}/{event.response.usage.output_tokens}"
    return f"{text}|{end}"


def wav():
    return ("a.wav", io.BytesIO(b"RIFF" + bytes(range(256)) * 2000), "audio/wav")


shapes = {
    "models": lambda: ",".join(sorted(m.id for m in client.models.list())),
    "chat": chat_text,
    "chat streamed": chat_stream,
    "chat with pictures and sound": lambda: chat_text(messages=picture),
    "chat with tools": lambda: client.chat.completions.create(model=model, messages=messages, tools=tools).choices[0].message.tool_calls[0].function.name,
    "chat parsed": parsed,
    "completion": lambda: client.completions.create(model=model, prompt="Once").choices[0].text,
    "completion of a list": lambda: client.completions.create(model=model, prompt=["one", "two"]).choices[0].text,
    "completion of token ids": lambda: client.completions.create(model=model, prompt=[1, 2, 3]).choices[0].text,
    "completion streamed": lambda: "".join(c.choices[0].text for c in client.completions.create(model=model, prompt="Once", stream=True) if c.choices),
    "responses": lambda: client.responses.create(model=model, input=messages).output_text,
    "responses streamed": responses_stream,
    "embeddings": lambda: str(client.embeddings.create(model=model, input=["a", "b"]).data[0].embedding),
    "embeddings of token ids": lambda: str(client.embeddings.create(model=model, input=[[1, 2], [3]], encoding_format="float").data[0].embedding),
    "transcription": lambda: client.audio.transcriptions.create(model=model, file=wav()).text,
    "translation": lambda: client.audio.translations.create(model=model, file=wav()).text,
    "speech": lambda: hashlib.sha256(client.audio.speech.create(model=model, input="hello", voice="alloy").read()).hexdigest()[:8],
    "image": lambda: client.images.generate(model=model, prompt="a cat").data[0].b64_json,
    "image edited": lambda: client.images.edit(model=model, prompt="a hat", image=("a.png", io.BytesIO(b"\x89PNG" + bytes(5000)), "image/png")).data[0].b64_json,
    "moderation": lambda: str(client.moderations.create(model=model, input="hello").results[0].flagged),
    "raw header": lambda: client.chat.completions.with_raw_response.create(model=model, messages=messages).headers.get("x-upstream"),
}
for name, call in shapes.items():
    try:
        calls[name] = call()
    except Exception as e:  # told, and compared with what is expected
        calls[name] = f"{type(e).__name__}: {e}"[:300]


def fails(name, call):
    try:
        call()
        errors[name] = {"type": "none"}
    except Exception as e:
        errors[name] = {"type": type(e).__name__, "status": getattr(e, "status_code", 0), "code": str(getattr(e, "code", None)), "message": str(e)[:300]}


def wanting(want, **more):
    return lambda: client.chat.completions.create(model=model, messages=messages, extra_headers={"x-want": want}, **more)


for status in (400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503):
    fails(f"pod {status}", wanting(f"status={status}"))
fails("pod breaks off", lambda: [c for c in wanting("break", stream=True)()])
fails("pod says nothing", wanting("reset"))
fails("unknown model", lambda: client.chat.completions.create(model="nobody", messages=messages))
fails("model is a number", lambda: client.chat.completions.create(model=model, messages=messages, extra_body={"model": 123}))
fails("body too large", lambda: client.chat.completions.create(model=model, messages=[{"role": "user", "content": "a" * (3 << 20)}]))
fails("no endpoint", lambda: client.chat.completions.create(model="empty", messages=messages))
fails("dead endpoint", lambda: client.chat.completions.create(model="dead", messages=messages))
fails("saturated", lambda: client.chat.completions.create(model="full", messages=messages))
fails("unknown model, responses", lambda: client.responses.create(model="nobody", input="x"))
fails("unknown model, embeddings", lambda: client.embeddings.create(model="nobody", input="x"))
fails("timeout", lambda: client.with_options(timeout=0.5).chat.completions.create(model=model, messages=messages, extra_headers={"x-want": "sleep"}))


def retries(name, call):
    began = time.monotonic()
    try:
        outcome = call(client.with_options(max_retries=1))
    except Exception as e:
        outcome = type(e).__name__
    retried[name] = {"outcome": outcome, "seconds": time.monotonic() - began}


for status in (429, 503):
    retries(f"pod {status}", lambda c: c.chat.completions.create(
        model=model, messages=messages, extra_headers={"x-want": f"once={status};after=2;key={sys.argv[3]}-{status}"}).choices[0].message.content)
retries("no endpoint", lambda c: c.chat.completions.create(model="empty", messages=messages).id)
retries("saturated", lambda c: c.chat.completions.create(model="full", messages=messages).id)

json.dump({"version": openai.__version__, "calls": calls, "errors": errors, "retried": retried, "bodies": bodies}, sys.stdout)
