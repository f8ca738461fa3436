// Two settings side by side, links, code, schemas, guesses and beams.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { ask, openPage, program, setNumber, startBrowser, startServer, tokens, written } from "./support.mjs";

let server;
let browser;
before(async () => ([server, browser] = await Promise.all([startServer(), startBrowser()])));
after(() => Promise.all([server?.stop(), browser?.close()]));

/** The fragment of the link that the page gives. */
async function shared(page) {
  await page.click("#share");
  const link = await page.inputValue("dialog textarea");
  await page.click('dialog [aria-label="Close"]');
  return new URL(link).hash;
}

const schema =
  '{"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":99}},"required":["age"],"additionalProperties":false}';

test("two settings stand side by side, and the first token where they part is marked", async (t) => {
  const page = await openPage(t, browser, server.url);
  const one = await ask(page, "Once upon a time", 40);
  await page.click("#compare");
  assert.equal(await written(page, "beside"), one);
  assert.match(await page.textContent(".note"), /the same text/);
  assert.equal(await page.isChecked("#side-beside"), true);
  await setNumber(page, "temperature", 1.5);
  await page.waitForFunction(() => document.querySelectorAll(".token.parts").length === 2);
  const other = await written(page, "beside");
  assert.equal(await written(page), one);
  const [a, b] = [await tokens(page), await tokens(page, "beside")];
  const part = a.findIndex((token, position) => token !== b[position]);
  const marked = await page.$$eval(".token.parts", (found) => found.map((token) => Number(token.dataset.position)));
  assert.deepEqual(marked, [part, part]);
  assert.equal(await page.textContent(".note"), `The texts part at token ${part + 1}.`);
  const printed = JSON.parse(
    await program(
      "generate",
      "Once upon a time",
      "--seed",
      "7",
      "--max-tokens",
      "40",
      "--temperature",
      "1.5",
      "--format",
      "json",
    ),
  );
  assert.equal(other, printed.text);

  const again = await openPage(t, browser, server.url, { fragment: await shared(page) });
  assert.deepEqual([await written(again), await written(again, "beside")], [one, other]);
  await page.click("#compare");
  assert.equal(await page.locator("#text-beside:visible").count(), 0);
});

test("a link shows the same text, branch and seed in another browser", async (t) => {
  const page = await openPage(t, browser, server.url);
  await ask(page, "Tom saw a big", 20);
  await setNumber(page, "min_p", 0.05);
  await written(page);
  await page.click("#main-4");
  await page.waitForFunction(() => document.querySelector("#draw h2").textContent.startsWith("Draw 5"));
  await page.locator(".rival:not(.drawn)").first().click();
  await page.waitForSelector(".token.forced");
  const text = await written(page);
  const again = await openPage(t, browser, server.url, { fragment: await shared(page) });
  assert.equal(await written(again), text);
  assert.deepEqual(
    [await again.inputValue("#prompt-field"), await again.inputValue("#seed"), await again.inputValue("#param-min_p")],
    ["Tom saw a big", "7", "0.05"],
  );
});

test("a link that was edited is told in a sentence, and the page goes on", async (t) => {
  const page = await openPage(t, browser, server.url);
  await ask(page, "Tom saw a big", 8);
  const fragment = await shared(page);
  for (const edited of [
    `${fragment.slice(0, 12)}!${fragment.slice(13)}`,
    "#nonsense",
    fragment.slice(0, fragment.length / 2),
  ]) {
    const other = await openPage(t, browser, server.url, { fragment: edited, expected: /status of 4\d\d/ });
    await other.waitForSelector("#notices .notice");
    assert.match(await other.textContent("#notices .notice p"), /link/i);
    assert.ok((await written(other)).length > 100);
  }
});

test("the code is that of the text: the program's command writes it", async (t) => {
  const page = await openPage(t, browser, server.url);
  const text = await ask(page, "Tom saw a big", 12);
  await page.click("#code");
  await page.waitForSelector("dialog textarea");
  const codes = await page.$$eval("dialog textarea", (fields) => fields.map((field) => field.value));
  assert.equal(codes.length, 4);
  assert.match(codes[0], /^onedraw generate /);
  assert.match(codes[1], /onedraw/);
  assert.match(codes[2], /import onedraw/);
  assert.match(codes[3], /^curl /);
  const { promisify } = await import("node:util");
  const { execFile } = await import("node:child_process");
  const command = codes[0].replace(/^onedraw/, '"$ONEDRAW_PROGRAM"');
  const { stdout } = await promisify(execFile)("bash", ["-euc", command], { encoding: "utf8" });
  assert.equal(stdout.trimEnd(), `Tom saw a big${text}`.trimEnd());
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
});

test("a schema holds the text to JSON, and forbidden tokens are greyed", async (t) => {
  const page = await openPage(t, browser, server.url);
  await ask(page, "Tom", 40);
  await page.click("#schema-box summary");
  await page.fill("#schema", schema);
  await page.click("#use-schema");
  await page.waitForFunction(() => document.querySelector("#text-main").textContent.includes("{"));
  const { age } = JSON.parse(await written(page));
  assert.ok(Number.isInteger(age) && age >= 0 && age <= 99, String(age));
  await page.waitForSelector(".rival.masked");
  assert.equal(await page.textContent(".facts"), "The schema left no other choice.");
  assert.equal(await page.locator(".token.forced").count(), 0);
  assert.match(await page.textContent(".bars"), /The schema forbids \d+ tokens here/);
  await page.click("#no-schema");
  assert.doesNotMatch(await written(page), /^\{/);
});

test("a schema that does not parse is told in a sentence, and the text stays", async (t) => {
  const page = await openPage(t, browser, server.url, { expected: /status of 400/ });
  const text = await ask(page, "Tom", 8);
  await page.click("#schema-box summary");
  await page.fill("#schema", '{"type":');
  await page.click("#use-schema");
  assert.match(await page.textContent("#schema-wrong"), /not JSON/);
  assert.equal(await written(page), text);
  await page.fill("#schema", '{"type": "nothing of the kind"}');
  await page.click("#use-schema");
  await page.waitForFunction(() => document.querySelector("#schema-wrong").textContent !== "");
  assert.ok((await page.textContent("#notices .wrong p")).length > 10);
  await page.click("#undo");
  assert.equal(await written(page), text);
  assert.equal(await page.locator("#notices .wrong").count(), 0);
});

test("guesses are shown pass by pass, and leave the text as it is", async (t) => {
  const page = await openPage(t, browser, server.url);
  const text = await ask(page, "Once upon a time", 60);
  await page.click("#guesses summary");
  const drafters = await page.$$eval("#draft option", (options) =>
    options.map((option) => option.value).filter((value) => value !== ""),
  );
  assert.ok(drafters.length > 0);
  for (const drafter of drafters) {
    await page.selectOption("#draft", drafter);
    assert.equal(await written(page), text, drafter);
  }
  await page.waitForFunction(() =>
    / of \d+ guesses were accepted/.test(document.querySelector("#guesses [role=status]").textContent),
  );
  const [accepted, all, passes] = (await page.textContent("#guesses [role=status]")).match(/\d+/g).map(Number);
  assert.ok(accepted <= all && accepted > 0 && passes < 60, `${accepted} of ${all} in ${passes}`);
  assert.equal(await page.locator(".guess").count(), all);
  assert.equal(await page.locator(".guess.accepted").count(), accepted);
});

test("beams are a tree, and the best of those found is the program's", async (t) => {
  const page = await openPage(t, browser, server.url);
  await ask(page, "Tom saw a big", 8);
  await page.click("#beams summary");
  await page.click("#search");
  await page.waitForSelector(".found");
  assert.equal(await page.locator(".found").count(), 3);
  assert.ok((await page.locator(".forest text").count()) > 20);
  assert.ok((await page.locator(".forest text.path").count()) === 8);
  const printed = await program("generate", "Tom saw a big", "--beams", "3", "--max-tokens", "8");
  assert.equal(`Tom saw a big${await page.textContent(".found span")}`, printed.trimEnd());
  await page.click("#code");
  await page.waitForSelector("dialog textarea");
  const codes = await page.$$eval("dialog textarea", (fields) => fields.map((field) => field.value));
  assert.equal(codes.length, 8);
  assert.equal(codes[4], "onedraw generate --beams=3 --n=3 --max-tokens=8 -- 'Tom saw a big'");
  assert.match(codes[7], /lab\/beams/);
  await page.keyboard.press("Escape");
  await page.click(".founds li:nth-child(2) .found");
  assert.equal(await page.getAttribute(".founds li:nth-child(2) .found", "aria-pressed"), "true");
});
