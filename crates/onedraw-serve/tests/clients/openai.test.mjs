// OpenAI's client for Node, and the texts of `onedraw generate`. It runs where `openai` and `zod` are installed:
//   ONEDRAW_PROGRAM=… node --test openai.test.mjs
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';

import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const model = 'stories';
const prompt = 'Once upon a time';
const messages = [{ role: 'user', content: prompt }];
const program = process.env.ONEDRAW_PROGRAM;

// Its fields are not in the order of the alphabet.
const Pet = z.object({ kind: z.enum(['cat', 'dog', 'bird']), happy: z.boolean(), colour: z.enum(['red', 'blue']) });

/** Starts a server with these flags: its base URL, and a function that ends it. */
async function serve(...flags) {
  const { ONEDRAW_API_KEY: _, ...env } = process.env;
  const process_ = spawn(program, ['serve', '--port', '0', ...flags], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  const [url] = await once(createInterface(process_.stdout), 'line');
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  const end = async () => {
    process_.kill('SIGTERM');
    assert.deepEqual(await once(process_, 'exit'), [0, null]);
  };
  return { baseURL: `${url}/v1`, end };
}

/** The texts that the program writes itself. Parameters are given as text: a number here would not keep every seed. */
function generate(params, ...flags) {
  const written = execFileSync(program, ['generate', prompt, '--format', 'json', ...flags, '--params', params]);
  return written.toString().trim().split('\n').map((line) => JSON.parse(line));
}

describe('a client of OpenAI', () => {
  let server, client;
  before(async () => {
    server = await serve();
    client = new OpenAI({ baseURL: server.baseURL, apiKey: 'none', maxRetries: 0 });
  });
  after(() => server.end());

  test('a completion is the text of generate', async () => {
    const answer = await client.completions.create({ model, prompt, seed: 7, max_tokens: 30, n: 2, temperature: 1.2 });
    const written = generate('{"seed": 7, "max_tokens": 30, "n": 2, "temperature": 1.2}');
    assert.deepEqual(answer.choices.map((choice) => choice.text), written.map((text) => text.text));
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1]);
    assert.equal(answer.usage.completion_tokens, written.flatMap((text) => text.tokens).length);
    const short = await client.completions.create({ model, prompt });
    assert.equal(short.usage.completion_tokens, 16);
  });

  test('a seed is a number below 2^53, or its digits', async () => {
    const ask = async (seed) => {
      const answer = await client.completions.create({ model, prompt, seed, temperature: 1.5 });
      return answer.choices[0].text;
    };
    const written = (seed) => generate(`{"seed": ${seed}, "temperature": 1.5, "max_tokens": 16}`)[0].text;
    const most = Number.MAX_SAFE_INTEGER;
    assert.equal(await ask(most), written('9007199254740991'));
    assert.equal(await ask('9007199254740991'), written('9007199254740991'));
    // A number would be rounded to another seed.
    assert.equal(await ask('18446744073709551615'), written('18446744073709551615'));
    assert.notEqual(await ask('9007199254740993'), await ask(9007199254740993));
    const chosen = await client.completions.create({ model, prompt, temperature: 1.5 });
    assert.ok(Number.isSafeInteger(chosen.seed));
    assert.equal(await ask(chosen.seed), chosen.choices[0].text);
  });

  test('a streamed completion is the same in parts', async () => {
    const request = { model, prompt, seed: 7, max_tokens: 20, logprobs: 1 };
    const [whole] = (await client.completions.create(request)).choices;
    let text = '';
    const tokens = [];
    let end = null;
    for await (const part of await client.completions.create({ ...request, stream: true })) {
      assert.equal(end, null);
      text += part.choices[0].text;
      tokens.push(...part.choices[0].logprobs.tokens);
      end = part.choices[0].finish_reason;
    }
    assert.deepEqual({ text, tokens, end }, { text: whole.text, tokens: whole.logprobs.tokens, end: 'length' });
  });

  test('parameters that OpenAI does not have are extra fields', async () => {
    const fields = { min_p: 0.1, xtc_probability: 0.5, seed: 5, max_tokens: 30 };
    const answer = await client.completions.create({ model, prompt, ...fields, preset: 'creative' });
    assert.equal(answer.choices[0].text, generate(JSON.stringify(fields), '--preset', 'creative')[0].text);
    const form = { regex: '[0-9]{3}-[a-c]{2}' };
    const number = await client.completions.create({ model, prompt, structured_outputs: form });
    assert.match(number.choices[0].text, /^[0-9]{3}-[a-c]{2}$/);
  });

  test('a chat is a completion, and has logprobs with bytes', async () => {
    const request = { model, messages, seed: 7, max_tokens: 20, logprobs: true, top_logprobs: 2 };
    const chat = await client.chat.completions.create(request);
    const [written] = generate('{"seed": 7, "max_tokens": 20, "logprobs": 2}', '--chat');
    const { content } = chat.choices[0].message;
    assert.equal(content, written.text);
    const entries = chat.choices[0].logprobs.content;
    assert.deepEqual(entries.map((entry) => entry.logprob), written.logprobs.map((token) => token.logprob));
    assert.equal(Buffer.from(entries.flatMap((entry) => entry.bytes)).toString(), content);
    assert.ok(entries.every((entry) => entry.top_logprobs.length === 2));
    assert.ok(entries.every(({ top_logprobs: [first, second] }) => first.logprob >= second.logprob));
  });

  test('a streamed chat is the same in parts', async () => {
    const request = { model, messages, seed: 7, max_tokens: 20 };
    const whole = await client.chat.completions.create(request);
    const parts = [];
    const options = { stream: true, stream_options: { include_usage: true } };
    for await (const part of await client.chat.completions.create({ ...request, ...options })) parts.push(part);
    const last = parts.pop();
    assert.deepEqual([last.choices, last.usage], [[], whole.usage]);
    assert.equal(parts.map((part) => part.choices[0].delta.content).join(''), whole.choices[0].message.content);
    assert.equal(parts[0].choices[0].delta.role, 'assistant');
    assert.equal(parts.at(-1).choices[0].finish_reason, 'length');
    // The client's own joining of parts.
    const stream = client.chat.completions.stream(request);
    assert.equal(await stream.finalContent(), whole.choices[0].message.content);
  });

  test('a stream that is left frees its place', async () => {
    const value = async (name) => {
      const text = await (await fetch(server.baseURL.replace('/v1', '/metrics'))).text();
      return Number(text.match(new RegExp(`^${name} (.*)$`, 'm'))[1]);
    };
    const earlier = await value('onedraw_cancelled_texts_total');
    const request = { model, prompt, n: 4, max_tokens: 500, ignore_eos: true, stream: true };
    for await (const part of await client.completions.create(request)) {
      assert.equal(part.choices[0].finish_reason, null);
      break;
    }
    const end = Date.now() + 5000;
    while ((await value('onedraw_running')) > 0) assert.ok(Date.now() < end, 'texts go on');
    assert.equal(await value('onedraw_cancelled_texts_total'), earlier + 4);
  });

  test('a schema becomes an object', async () => {
    const request = { model, messages: [{ role: 'user', content: 'A pet:' }], seed: 7 };
    const chat = await client.chat.completions.parse({ ...request, response_format: zodResponseFormat(Pet, 'pet') });
    const { content, parsed } = chat.choices[0].message;
    assert.deepEqual(parsed, Pet.parse(JSON.parse(content)));
    assert.deepEqual(Object.keys(JSON.parse(content)), ['kind', 'happy', 'colour']);
    const format = zodTextFormat(Pet, 'pet');
    const response = await client.responses.parse({ model, input: 'A pet:', seed: 7, text: { format } });
    assert.deepEqual(response.output_parsed, parsed);
    const schema = { type: 'integer', minimum: 3, maximum: 5 };
    const plain = { type: 'json_schema', json_schema: { name: 'age', schema } };
    const age = await client.chat.completions.create({ ...request, response_format: plain });
    assert.ok([3, 4, 5].includes(JSON.parse(age.choices[0].message.content)));
  });

  test('a response is the text of a chat, also in events', async () => {
    const request = { model, input: prompt, seed: 7, max_output_tokens: 20 };
    const chat = await client.chat.completions.create({ model, messages, seed: 7, max_tokens: 20 });
    const response = await client.responses.create(request);
    assert.equal(response.output_text, chat.choices[0].message.content);
    assert.deepEqual([response.status, response.incomplete_details.reason], ['incomplete', 'max_output_tokens']);
    assert.deepEqual([response.usage.input_tokens, response.usage.output_tokens], [5, 20]);
    const events = [];
    for await (const event of await client.responses.create({ ...request, stream: true })) events.push(event);
    const deltas = events.filter((event) => event.type === 'response.output_text.delta');
    assert.equal(deltas.map((event) => event.delta).join(''), response.output_text);
    assert.deepEqual([events[0].type, events.at(-1).type], ['response.created', 'response.incomplete']);
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    const final = await client.responses.stream({ ...request, stop: ['.'] }).finalResponse();
    assert.deepEqual([final.status, final.output_text], ['completed', response.output_text.split('.')[0]]);
  });

  test('the model is listed, and answers have a request id', async () => {
    const list = [];
    for await (const entry of client.models.list()) list.push(entry.id);
    assert.deepEqual(list, [model]);
    const { system_fingerprint: fingerprint } = await client.models.retrieve(model);
    const answer = await client.completions.create({ model, prompt });
    assert.equal(answer.system_fingerprint, fingerprint);
    assert.match(answer._request_id, /^req-[0-9a-f]{16}$/);
  });

  test('errors have their classes', async () => {
    const refused = async (request, kind, expected) => {
      const error = await request.then(() => assert.fail('there is an answer'), (error) => error);
      assert.ok(error instanceof kind, `${error}`);
      const { status, param, code } = error;
      assert.deepEqual({ status, param, code }, expected);
    };
    const completion = (fields) => client.completions.create({ model, prompt, ...fields });
    const bad = (param) => ({ status: 400, param, code: null });
    await refused(completion({ temperatur: 1 }), BadRequestError, bad('temperatur'));
    await refused(completion({ top_p: 2 }), BadRequestError, bad('top_p'));
    await refused(completion({ suffix: '.' }), BadRequestError, bad('suffix'));
    await refused(completion({ best_of: 2 }), BadRequestError, bad('best_of'));
    await refused(completion({ seed: '-3' }), BadRequestError, bad('seed'));
    const tools = [{ type: 'function', function: { name: 'weather', parameters: {} } }];
    await refused(client.chat.completions.create({ model, messages, tools }), BadRequestError, bad('tools'));
    const missing = { status: 404, param: 'model', code: 'model_not_found' };
    await refused(completion({ model: 'gpt-9' }), NotFoundError, missing);
    await refused(client.models.retrieve('gpt-9'), NotFoundError, missing);
  });

  test('a key is needed where the server has one', async () => {
    const keyed = await serve('--api-key', 'right');
    const ask = (apiKey) => new OpenAI({ baseURL: keyed.baseURL, apiKey, maxRetries: 0 }).models.retrieve(model);
    assert.equal((await ask('right')).id, model);
    const refusal = await ask('wrong').catch((error) => error);
    assert.ok(refusal instanceof AuthenticationError, `${refusal}`);
    assert.deepEqual([refusal.status, refusal.code], [401, 'invalid_api_key']);
    await keyed.end();
  });
});
