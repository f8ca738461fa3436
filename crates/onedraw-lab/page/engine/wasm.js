// The worker that has the model: it fetches the files, opens the laboratory and answers the page.

import { Failure } from "./contract.js";
import { checkBrowser, fetchModel, fetchPart, fetchSite } from "./load.js";
import { Serving } from "./serving.js";

/** The folder of this version of the site. */
const BASE = new URL("../", import.meta.url);

async function open() {
  checkBrowser();
  const site = await fetchSite(BASE);
  const files = await fetchModel(BASE, site.model, (loaded, total) =>
    self.postMessage({ progress: { loaded, total } }),
  );
  const module = await import(new URL(site.module, BASE).href);
  await module.default();
  const serving = new Serving(
    module.open(files),
    (message) => self.postMessage(message),
    async (name, progress) => {
      const part = site.drafters[name];
      return part === undefined ? null : fetchPart(BASE, part, progress);
    },
  );
  self.onmessage = ({ data }) => serving.take(data);
  self.postMessage({ ready: true });
}

open().catch((error) => {
  const { kind, message } =
    error instanceof Failure ? error : new Failure("worker", `The model could not be opened: ${error}`);
  self.postMessage({ failed: { kind, message } });
});
