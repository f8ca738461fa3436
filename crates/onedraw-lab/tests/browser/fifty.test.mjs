// The page of the server shows the texts that the program writes.

import { after, before, test } from "node:test";

import { showsFifty } from "./fifty.mjs";
import { openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
before(async () => ([server, browser] = await Promise.all([startServer(), startBrowser()])));
after(() => Promise.all([server?.stop(), browser?.close()]));

test("fifty random settings: the page's text is the program's", async (t) => {
  await showsFifty(await openPage(t, browser, server.url), server);
});
