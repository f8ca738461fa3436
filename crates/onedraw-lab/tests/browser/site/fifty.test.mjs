// The site without a server shows the texts that the program writes: links go from a server to it.

import { after, before, test } from "node:test";

import { showsFifty } from "../fifty.mjs";
import { openPage, startBrowser, startServer } from "../support.mjs";
import { startSite } from "./files.mjs";

let server;
let browser;
before(async () => ([server, browser] = await Promise.all([startServer(), startBrowser()])));
after(() => Promise.all([server?.stop(), browser?.close()]));

test("fifty random settings: the text in the browser is the program's", async (t) => {
  const site = await startSite();
  t.after(site.stop);
  await showsFifty(await openPage(t, browser, site.url), server);
});
