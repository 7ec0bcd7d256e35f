// Drives a gateway with the official OpenAI SDK for Node and prints what came back, as JSON.
const { createRequire } = require('node:module');
const { createHash } = require('node:crypto');
const [, , base, model, sdks] = process.argv;
const OpenAI = createRequire(sdks + '/')('openai');

const bodies = []; // what was sent, and what the model server says that it got
async function heard(url, init) {
  const response = await fetch(url, init);
  const arrived = response.headers.get('x-sim-body-sha256');
  if (init && init.body && arrived) {
    bodies.push({ sent: createHash('sha256').update(init.body).digest('hex'), arrived });
  }
  return response;
}

async function main() {
  const client = new OpenAI.OpenAI({ baseURL: base + '/v1', apiKey: 'none', fetch: heard, maxRetries: 0 });
  const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Say something – auf Deutsch, ß, 漢字, 🙂' }];
  const out = { version: require(sdks + '/node_modules/openai/package.json').version };

  out.models = [];
  for await (const m of client.models.list()) out.models.push(m.id);

  const answer = await client.chat.completions.create({ model, messages, max_tokens: 24, seed: 1 });
  out.chat = answer.choices[0].message.content;
  out.chatUsage = answer.usage.completion_tokens;

  out.stream = '';
  out.streamChunks = 0;
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 24, seed: 1, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    out.streamChunks++;
    if (chunk.choices.length) out.stream += chunk.choices[0].delta.content || '';
    if (chunk.usage) out.streamUsage = chunk.usage.completion_tokens;
  }

  out.completion = (await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 16, seed: 2 })).choices[0].text;

  out.unknownModel = await client.chat.completions.create({ model: 'nobody', messages }).then(() => 'no error', (e) => String(e.code));
  out.podFails = await client.chat.completions
    .create({ model, messages }, { headers: { 'x-sim-fault': 'status=503' } })
    .then(() => 'no error', (e) => String(e.status));

  out.largeChunks = 0;
  const large = [{ role: 'user', content: 'a'.repeat(20 << 20) }];
  for await (const _ of await client.chat.completions.create({ model, messages: large, stream: true }, { headers: { 'x-sim-fixed-sse': '1' } })) out.largeChunks++;

  const left = await client.chat.completions.create({ model, messages, max_tokens: 4000, stream: true });
  for await (const _ of left) break; // aborts the request
  out.left = true;

  out.bodies = bodies;
  process.stdout.write(JSON.stringify(out));
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
