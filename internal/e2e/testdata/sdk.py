"""Drives a gateway with the official OpenAI SDK for Python and prints what came back, as JSON."""
import hashlib
import json
import sys

import openai

base, model = sys.argv[1], sys.argv[2]
bodies = []  # what was sent, and what the model server says that it got


def heard(response):
    arrived = response.headers.get("x-sim-body-sha256")
    if response.request.method == "POST" and arrived:
        bodies.append({"sent": hashlib.sha256(response.request.content).hexdigest(), "arrived": arrived})


http = openai.DefaultHttpx2Client(event_hooks={"response": [heard]})
client = openai.OpenAI(base_url=base + "/v1", api_key="none", http_client=http, max_retries=0)
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say something – auf Deutsch, ß, 漢字, 🙂"}]
out = {"version": openai.__version__}

out["models"] = [m.id for m in client.models.list()]

answer = client.chat.completions.create(model=model, messages=messages, max_tokens=24, seed=1)
out["chat"] = answer.choices[0].message.content
out["chatUsage"] = answer.usage.completion_tokens

text, usage, chunks = "", None, 0
for chunk in client.chat.completions.create(model=model, messages=messages, max_tokens=24, seed=1, stream=True, stream_options={"include_usage": True}):
    chunks += 1
    if chunk.choices:
        text += chunk.choices[0].delta.content or ""
    if chunk.usage:
        usage = chunk.usage.completion_tokens
out["stream"], out["streamUsage"], out["streamChunks"] = text, usage, chunks

out["completion"] = client.completions.create(model=model, prompt="Once upon a time", max_tokens=16, seed=2).choices[0].text

try:
    client.chat.completions.create(model="nobody", messages=messages)
    out["unknownModel"] = "no error"
except openai.NotFoundError as e:
    out["unknownModel"] = str(e.code)
try:
    client.chat.completions.create(model=model, messages=messages, extra_headers={"x-sim-fault": "status=503"})
    out["podFails"] = "no error"
except openai.InternalServerError as e:
    out["podFails"] = str(e.status_code)

large = [{"role": "user", "content": "a" * (20 << 20)}]
out["largeChunks"] = sum(1 for _ in client.chat.completions.create(model=model, messages=large, stream=True, extra_headers={"x-sim-fixed-sse": "1"}))

stream = client.chat.completions.create(model=model, messages=messages, max_tokens=4000, stream=True)
next(iter(stream))
stream.close()
out["left"] = True

out["bodies"] = bodies
json.dump(out, sys.stdout)
