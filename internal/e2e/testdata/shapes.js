// Every call shape and every error of the official OpenAI SDK for Node against a gateway; prints what came of them, as JSON.
const { createRequire } = require('node:module');
const { createHash } = require('node:crypto');
const [, , base, model, key, sdks] = process.argv;
const OpenAI = createRequire(sdks + '/')('openai');

const bodies = [];
async function heard(url, init) {
  const response = await fetch(url, init);
  const arrived = response.headers.get('x-body-sha256');
  if (init && typeof init.body === 'string' && arrived) {
    bodies.push({ sent: createHash('sha256').update(init.body).digest('hex'), arrived });
  }
  return response;
}
const client = new OpenAI.OpenAI({ baseURL: base + '/v1', apiKey: 'none', fetch: heard, maxRetries: 0 });
const messages = [{ role: 'user', content: 'Grüße, 漢字, 🙂' }];
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
const picture = [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }] }];
const file = (name, type) => OpenAI.toFile(Buffer.alloc(300_000, 7), name, { type });

async function chatStreamed() {
  let text = '';
  let usage;
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })) {
    if (chunk.choices.length) text += chunk.choices[0].delta.content || '';
    usage = chunk.usage || usage;
  }
  return `${text}|${usage.prompt_tokens}/${usage.completion_tokens}/${usage.prompt_tokens_details.cached_tokens}`;
}

async function responsesStreamed() {
  let text = '';
  let end = '';
  for await (const event of await client.responses.create({ model, input: 'hello', stream: true })) {
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type === 'response.completed') end = `${event.response.usage.input_tokens}/${event.response.usage.output_tokens}`;
  }
  return `${text}|${end}`;
}

const shapes = {
  models: async () => {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    return ids.sort().join(',');
  },
  chat: async () => (await client.chat.completions.create({ model, messages })).choices[0].message.content,
  'chat streamed': chatStreamed,
  'chat with pictures and sound': async () => (await client.chat.completions.create({ model, messages: picture })).choices[0].message.content,
  'chat with tools': async () => (await client.chat.completions.create({ model, messages, tools })).choices[0].message.tool_calls[0].function.name,
  completion: async () => (await client.completions.create({ model, prompt: 'Once' })).choices[0].text,
  'completion of token ids': async () => (await client.completions.create({ model, prompt: [1, 2, 3] })).choices[0].text,
  responses: async () => (await client.responses.create({ model, input: messages })).output_text,
  'responses streamed': responsesStreamed,
  embeddings: async () => JSON.stringify((await client.embeddings.create({ model, input: ['a', 'b'], encoding_format: 'float' })).data[0].embedding),
  transcription: async () => (await client.audio.transcriptions.create({ model, file: await file('a.wav', 'audio/wav') })).text,
  speech: async () => createHash('sha256').update(Buffer.from(await (await client.audio.speech.create({ model, input: 'hello', voice: 'alloy' })).arrayBuffer())).digest('hex').slice(0, 8),
  image: async () => (await client.images.generate({ model, prompt: 'a cat' })).data[0].b64_json,
  moderation: async () => String((await client.moderations.create({ model, input: 'hello' })).results[0].flagged),
};

async function main() {
  const out = { version: require(sdks + '/node_modules/openai/package.json').version, calls: {}, errors: {}, retried: {}, bodies };
  for (const [name, call] of Object.entries(shapes)) {
    out.calls[name] = await call().catch((e) => `${e.constructor.name}: ${e.message}`.slice(0, 300));
  }
  const fails = async (name, call) => {
    out.errors[name] = await call().then(
      () => ({ type: 'none' }),
      (e) => ({ type: e.constructor.name, status: e.status || 0, code: String(e.code), message: String(e.message).slice(0, 300) }),
    );
  };
  const wanting = (want, more) => () => client.chat.completions.create({ model, messages, ...more }, { headers: { 'x-want': want } });
  for (const status of [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503]) await fails(`pod ${status}`, wanting(`status=${status}`));
  await fails('pod breaks off', async () => {
    for await (const _ of await wanting('break', { stream: true })());
  });
  await fails('pod says nothing', wanting('reset'));
  await fails('unknown model', () => client.chat.completions.create({ model: 'nobody', messages }));
  await fails('model is a number', () => client.chat.completions.create({ model: 123, messages }));
  await fails('body too large', () => client.chat.completions.create({ model, messages: [{ role: 'user', content: 'a'.repeat(3 << 20) }] }));
  await fails('no endpoint', () => client.chat.completions.create({ model: 'empty', messages }));
  await fails('dead endpoint', () => client.chat.completions.create({ model: 'dead', messages }));
  await fails('saturated', () => client.chat.completions.create({ model: 'full', messages }));
  await fails('timeout', () => client.chat.completions.create({ model, messages }, { headers: { 'x-want': 'sleep' }, timeout: 500 }));

  const retries = async (name, request, want) => {
    const began = performance.now();
    const outcome = await client.chat.completions.create({ messages, ...request }, { maxRetries: 1, headers: want ? { 'x-want': want } : {} }).then(
      (c) => c.choices[0].message.content,
      (e) => e.constructor.name,
    );
    out.retried[name] = { outcome, seconds: (performance.now() - began) / 1000 };
  };
  for (const status of [429, 503]) await retries(`pod ${status}`, { model }, `once=${status};after=2;key=${key}-${status}`);
  await retries('no endpoint', { model: 'empty' });
  await retries('saturated', { model: 'full' });
  process.stdout.write(JSON.stringify(out));
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
