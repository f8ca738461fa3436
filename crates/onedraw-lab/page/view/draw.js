// The selected draw: what the stages did, one after the other, and the rivals.

import { factsOf, insteadOf, isHeld } from "../model/facts.js";
import { percent, short, visible } from "../model/figures.js";
import { rivals } from "../model/rivals.js";
import { bar } from "./bars.js";
import { button, h } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Look} Look */
/** @typedef {import("../engine/contract.js").Stage} Stage */
/** @typedef {import("../model/rivals.js").Rival} Rival */

/** The most rivals that are listed. */
const LISTED = 14;
const OF_THE_SCHEMA = "allowed";

export class DrawView {
  #lab;
  #head = h("div", {});
  #stages = h("ol", { class: "stages" });
  #rivals = h("div", { class: "bars" });
  /** The stage whose work is shown, by its place; null for all of them. @type {string | null} */
  #stage = null;

  /**
   * @param {Lab} lab
   * @param {HTMLElement} root
   */
  constructor(lab, root) {
    this.#lab = lab;
    root.append(this.#head, this.#rivals, this.#stages);
    lab.on("look", () => this.#render());
    lab.on("text", () => this.#renderHead());
    lab.on("selected", () => this.#renderHead());
    this.#renderHead();
  }

  #render() {
    const { look, lookFailure } = this.#lab;
    this.#renderHead();
    if (lookFailure !== null) {
      this.#rivals.replaceChildren(h("p", { class: "notice wrong", role: "alert" }, lookFailure.message));
      this.#stages.replaceChildren();
    } else if (look !== null) {
      this.#renderStages(look);
      this.#renderRivals(look);
    }
  }

  #renderHead() {
    const { position } = this.#lab.selected;
    const token = this.#lab.selectedRun.tokens[position];
    const look = this.#lab.currentLook;
    const title = h("h2", {}, `Draw ${position + 1}`);
    if (token === undefined) {
      this.#head.replaceChildren(
        title,
        h("p", { class: "quiet" }, "Select a token of the text to see how it was drawn."),
      );
      return;
    }
    title.append(": ", h("span", { class: "piece" }, visible(token.text)));
    const instead = look === null ? null : insteadOf(token, look.token);
    const now = h("p", { class: "now" }, instead ?? "");
    if (look !== null && instead !== null && look.token.id !== token.id)
      now.append(" ", h("span", { class: "piece" }, visible(look.token.text)), " here.");
    this.#head.replaceChildren(title, h("p", { class: "facts" }, factsOf(token)), now);
  }

  /** @param {Look} look */
  #renderStages(look) {
    const keys = look.stages.map((stage, index) => `${index}:${stage.stage}`);
    if (this.#stage !== null && !keys.includes(this.#stage)) this.#stage = null;
    const items = look.stages.map((stage, index) => {
      const key = index === 0 ? null : /** @type {string} */ (keys[index]);
      const label = index === 0 ? "all stages" : stage.stage;
      const last = look.stages.at(-1);
      const left =
        index === 0 && last !== undefined ? `${look.stages[0]?.tokens} → ${last.tokens}` : `${stage.tokens} left`;
      const done = index === 0 ? null : whatItDid(stage, look.stages[index - 1]);
      const choose = button("", () => this.#choose(key), {
        class: "stage",
        "aria-pressed": String(this.#stage === key),
      });
      choose.append(h("b", {}, label), h("span", { class: "left" }, left), h("span", { class: "did" }, done));
      return h("li", { "data-stage": stage.stage }, choose);
    });
    this.#stages.replaceChildren(...items);
  }

  /** @param {string | null} stage */
  #choose(stage) {
    this.#stage = stage;
    const { look } = this.#lab;
    if (look === null) return;
    const focused = [...this.#stages.querySelectorAll("button")].indexOf(
      /** @type {HTMLButtonElement} */ (document.activeElement),
    );
    this.#renderStages(look);
    this.#renderRivals(look);
    this.#stages.querySelectorAll("button")[focused]?.focus();
  }

  /** @param {Look} look */
  #renderRivals(look) {
    const index = this.#stage === null ? null : Number(this.#stage.split(":")[0]);
    const span = index === null ? { first: 0, last: look.stages.length - 1 } : { first: index - 1, last: index };
    const own = this.#lab.selectedRun.tokens[look.position];
    const found = rivals(look, span.first, span.last, LISTED).map((rival) => {
      // Of the text's own token, the model's probability is known though it is not among the first.
      const isKnown = rival.before === null && span.first === 0 && rival.id === own?.id;
      return isKnown ? { ...rival, before: own.raw_probability } : rival;
    });
    const most = Math.max(...found.map((rival) => Math.max(rival.before ?? 0, rival.after ?? 0)), 1e-9);
    const name = index === null ? "all stages" : /** @type {Stage} */ (look.stages[index]).stage;
    const caption = h(
      "p",
      { class: "key" },
      h("span", { class: "key-before" }, "before"),
      h("span", { class: "key-after" }, `after ${name}`),
    );
    const rows = found.map((rival) => this.#row(rival, look, most));
    const list = h("ul", { class: "rivals", "aria-label": `Rivals, before and after ${name}` }, ...rows);
    const more = [];
    if (look.masked > 0) more.push(h("p", { class: "quiet" }, `The schema forbids ${look.masked} tokens here.`));
    if (index !== null) more.push(...details(/** @type {Stage} */ (look.stages[index])));
    this.#rivals.replaceChildren(
      caption,
      list,
      h("p", { class: "quiet" }, "Choose a rival to go on with it."),
      ...more,
    );
  }

  /**
   * @param {Rival} rival
   * @param {Look} look
   * @param {number} most
   */
  #row(rival, look, most) {
    const isDrawn = rival.id === look.token.id;
    const own = this.#lab.selectedRun.tokens[look.position];
    const drawn = own !== undefined && isHeld(own) ? ", a draw would take it" : ", drawn";
    const classes = ["rival"];
    if (isDrawn) classes.push("drawn");
    if (rival.gone !== null) classes.push(rival.gone === OF_THE_SCHEMA ? "masked" : "gone");
    const fate = fateOf(rival);
    const label = `Go on with “${rival.text}”: ${rival.before === null ? "" : `${percent(rival.before)} before, `}${fate.spoken}${isDrawn ? drawn : ""}`;
    const act = () => this.#lab.branch(look.position, rival, `${visible(rival.text)} at ${look.position + 1}`);
    const choose = button("", act, {
      class: classes.join(" "),
      title: rival.gone === null ? null : fate.spoken,
      "data-token": rival.id,
    });
    choose.append(
      h("span", { class: "visually-hidden" }, label),
      h("span", { class: "piece", "aria-hidden": "true" }, visible(rival.text)),
      bar(rival.before, rival.after, most),
      h("span", { class: "figure", "aria-hidden": "true" }, rival.before === null ? "" : percent(rival.before)),
      h("span", { class: "figure after", "aria-hidden": "true" }, fate.shown),
    );
    return h("li", {}, choose);
  }
}

/**
 * @param {Rival} rival
 * @returns {{ shown: string, spoken: string }}
 */
function fateOf(rival) {
  if (rival.gone !== null) {
    const spoken =
      rival.short === null ? `removed by ${rival.gone}` : `removed by ${rival.gone}, short by ${percent(rival.short)}`;
    return { shown: rival.gone, spoken };
  }
  if (rival.after === null) return { shown: "–", spoken: "not among the first after it" };
  return { shown: percent(rival.after), spoken: `${percent(rival.after)} after` };
}

/**
 * What a stage did, in a few words.
 * @param {Stage} stage
 * @param {Stage | undefined} before
 */
function whatItDid(stage, before) {
  const parts = [];
  if (stage.gone > 0) parts.push(`removed ${stage.gone} with ${percent(1 - stage.mass)}`);
  if (before !== undefined && stage.temperature !== before.temperature)
    parts.push(`temperature ${short(stage.temperature)}`);
  if (parts.length === 0)
    parts.push(
      stage.gone === 0 && before !== undefined && stage.entropy !== before.entropy
        ? "moved probabilities"
        : "changed nothing here",
    );
  return parts.join(", ");
}

/**
 * By how little tokens went, and what the stage decided.
 * @param {Stage} stage
 * @returns {HTMLElement[]}
 */
function details(stage) {
  const found = [];
  if (stage.decision) found.push(h("p", {}, stage.decision));
  const nearest = stage.removed
    .filter((removed) => removed.short !== null)
    .sort((a, b) => (a.short ?? 0) - (b.short ?? 0));
  if (nearest.length > 0) {
    const rows = nearest
      .slice(0, 3)
      .map((removed) =>
        h(
          "li",
          {},
          h("span", { class: "piece" }, visible(removed.text)),
          ` had ${percent(removed.probability)}, short by ${percent(removed.short ?? 0)}`,
        ),
      );
    found.push(h("h3", {}, `Nearest to staying in ${stage.stage}`), h("ul", { class: "nearest" }, ...rows));
  }
  return found;
}
