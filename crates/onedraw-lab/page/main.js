// Opens the laboratory: the engine, the state of the link or of a first visit, and the views.

import { chooseEngine, livesInBrowser } from "./engine/choose.js";
import { askOnce } from "./engine/contract.js";
import { Lab } from "./lab.js";
import { megabytes } from "./model/figures.js";
import { fromShared } from "./model/link.js";
import { firstState } from "./model/state.js";
import { BeamsView } from "./view/beams.js";
import { ControlsView } from "./view/controls.js";
import { button, h, place } from "./view/dom.js";
import { DrawView } from "./view/draw.js";
import { askForKey } from "./view/key.js";
import { notify } from "./view/notices.js";
import { PassesView } from "./view/passes.js";
import { PromptView } from "./view/prompt.js";
import { SchemaView } from "./view/schema.js";
import { shareButtons } from "./view/share.js";
import { stepButtons } from "./view/steps.js";
import { TextsView } from "./view/texts.js";
import { TreeView } from "./view/tree.js";

/** @typedef {import("./engine/contract.js").About} About */
/** @typedef {import("./engine/contract.js").Engine} Engine */
/** @typedef {import("./model/state.js").State} State */

async function open() {
  const loading = place("loading");
  try {
    const engine = await chooseEngine(askForKey, showProgress);
    const about = /** @type {About} */ (await askOnce(engine, "about", {}));
    const state = (await linkedState(engine)) ?? firstState();
    show(new Lab(engine, about, state));
    loading.remove();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    loading.replaceChildren(
      h("p", { role: "alert" }, message),
      button("Try again", () => window.location.reload()),
    );
  }
}

/** @param {Lab} lab */
function show(lab) {
  const { model, version } = lab.about;
  place("model").textContent = `${model.id}, ${model.vocabulary.toLocaleString("en")} tokens · onedraw ${version}`;
  place("actions").append(...stepButtons(lab), ...shareButtons(lab));
  new PromptView(lab, place("prompt"));
  new TextsView(lab, place("texts"));
  new DrawView(lab, place("draw"));
  new ControlsView(lab, place("controls"));
  const branches = h(
    "details",
    { open: true },
    h("summary", {}, "Branches: where you have been"),
    new TreeView(lab).element,
  );
  place("more").append(branches, new SchemaView(lab).element, new PassesView(lab).element, new BeamsView(lab).element);
  place("bench").hidden = false;
  window.addEventListener("hashchange", async () => {
    const state = await linkedState(lab.engine);
    if (state !== null) lab.change("A link", state);
  });
}

/**
 * The state of the link that opened the page.
 * @param {Engine} engine
 * @returns {Promise<State | null>} null where there is none, or it cannot be read
 */
async function linkedState(engine) {
  const fragment = window.location.hash.slice(1);
  if (fragment === "") return null;
  try {
    const { state, warnings } = await askOnce(engine, "open", { fragment });
    for (const warning of warnings) notify(warning, "said");
    return fromShared(state);
  } catch (error) {
    notify(error instanceof Error ? error.message : String(error));
    return null;
  }
}

/**
 * @param {number} loaded
 * @param {number | null} total
 */
function showProgress(loaded, total) {
  const bar = h("progress", {
    "aria-label": "The model is loading",
    max: total,
    value: total === null ? null : loaded,
  });
  const sum = total === null ? `${megabytes(loaded)} MB` : `${megabytes(loaded)} of ${megabytes(total)} MB`;
  place("loading").replaceChildren(h("p", {}, `The model is loading: ${sum}`), bar);
}

/**
 * Keeps the site for a time without a network. Where a browser refuses, the page works while there is one. The page of a
 * server has nothing to keep, and what another site has left at its address goes.
 */
async function keepOffline() {
  const { serviceWorker } = navigator;
  if (serviceWorker === undefined) return;
  const folder = new URL("./", import.meta.url);
  try {
    if (livesInBrowser()) {
      // The files of a version lie in a folder of its name.
      const version = folder.pathname.split("/").at(-2) ?? "";
      await serviceWorker.register(new URL(`../sw.js?version=${version}`, folder));
    } else {
      for (const registration of await serviceWorker.getRegistrations())
        if (registration.scope === folder.href) await registration.unregister();
    }
  } catch {
    // Storage may be refused.
  }
}

open().then(keepOffline);
