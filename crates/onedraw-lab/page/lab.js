// What the page shows: the state that the reader is in, its texts, and the draw that they look at. Views listen to it.

import { History } from "./model/history.js";
import { Looks } from "./model/looks.js";
import { Runs } from "./model/runs.js";
import { heldBefore, settingOf, withParam, withSetting, writeQuestion } from "./model/state.js";

/** @typedef {import("./engine/contract.js").About} About */
/** @typedef {import("./engine/contract.js").BeamsQuestion} BeamsQuestion */
/** @typedef {import("./engine/contract.js").Engine} Engine */
/** @typedef {import("./engine/contract.js").Failure} Failure */
/** @typedef {import("./engine/contract.js").Look} Look */
/** @typedef {import("./engine/contract.js").LookQuestion} LookQuestion */
/** @typedef {import("./engine/contract.js").Piece} Piece */
/** @typedef {import("./model/runs.js").Run} Run */
/** @typedef {import("./model/state.js").Setting} Setting */
/** @typedef {import("./model/state.js").Side} Side */
/** @typedef {import("./model/state.js").State} State */

/**
 * What listeners hear of: another state, a line of a text, another token selected, a draw looked at.
 * @typedef {"state" | "text" | "selected" | "look"} Event
 */

/** How many rivals are listed. */
const LISTED = 12;

export class Lab {
  engine;
  about;
  history;
  /** @type {Run} */
  run;
  /** @type {Run | null} */
  besideRun = null;
  /** @type {BeamsQuestion | null} the search whose beams are shown */
  search = null;
  /** @type {{ side: Side, position: number }} */
  selected = { side: "main", position: 0 };
  /** @type {Look | null} the draw whose bars are shown: the last answer, until the next one comes */
  look = null;
  /** What the last answer is to. @type {string | null} */
  #lookedAt = null;
  /** @type {Failure | null} */
  lookFailure = null;
  /** @type {Setting | null} what a control is being moved through, not yet part of the state */
  #trial = null;
  /** Whether the look is behind the selection. */
  #isLookDue = true;
  #runs;
  #looks;
  /** Looks at draws that are not selected: they do not take the place of one at the selected draw. */
  #glances;
  /** @type {Map<Event, (() => void)[]>} */
  #listeners = new Map();

  /**
   * @param {Engine} engine
   * @param {About} about
   * @param {State} state
   */
  constructor(engine, about, state) {
    this.engine = engine;
    this.about = about;
    this.history = new History(state);
    this.#looks = new Looks(engine);
    this.#glances = new Looks(engine);
    this.#runs = new Runs(engine, (run, line) => {
      if (line?.kind === "back") this.#forgetFrom(line.to);
      if (run === this.run || run === this.besideRun) this.#textChanged();
    });
    this.run = this.#runs.write(writeQuestion(state, "main"));
    this.#show();
  }

  /** @returns {State} */
  get state() {
    return this.history.current.state;
  }

  /** The setting that the controls show and change. */
  get setting() {
    return this.#trial ?? settingOf(this.state, this.selected.side);
  }

  /** The text of the side that is selected. */
  get selectedRun() {
    return this.selected.side === "beside" && this.besideRun !== null ? this.besideRun : this.run;
  }

  /** The look, where it is the selected draw's with the text and the setting of now. */
  get currentLook() {
    const { side, position } = this.selected;
    const question = this.#lookQuestion(side, position, this.setting);
    return question !== null && keyOf(side, question) === this.#lookedAt ? this.look : null;
  }

  /**
   * @param {Event} event
   * @param {() => void} listener
   */
  on(event, listener) {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  /**
   * Goes to another state.
   * @param {string} change what is done, for the reader
   * @param {Partial<State>} patch
   * @param {number} [since] the first position that may change
   */
  change(change, patch, since = 0) {
    this.history.push(change, { ...this.state, ...patch }, since);
    this.#show();
  }

  /** @param {number} id of a visit */
  goTo(id) {
    this.history.visit(id);
    this.#show();
  }

  undo() {
    this.history.undo();
    this.#show();
  }

  redo() {
    this.history.redo();
    this.#show();
  }

  /** Writes the text again, after a failure or a stop. */
  again() {
    this.#show();
  }

  stop() {
    this.#runs.stopOthers([]);
  }

  /**
   * Lets the reader see what a setting would do to the selected draw. The state stays as it is.
   * @param {Setting} setting
   */
  preview(setting) {
    this.#trial = setting;
    this.#lookAgain();
  }

  /**
   * Makes a setting the state's. The tokens before the selected one are held; the text goes on from there.
   * @param {string} change
   * @param {Setting} setting
   */
  apply(change, setting) {
    this.#trial = null;
    if (JSON.stringify(setting) === JSON.stringify(settingOf(this.state, this.selected.side))) {
      this.#lookAgain();
      return;
    }
    const state = withSetting(this.state, this.selected.side, setting);
    const { position } = this.selected;
    const forced = this.state.beside === null ? heldBefore(this.run.tokens, position) : this.state.forced;
    this.change(change, { ...state, forced }, this.state.beside === null ? position : 0);
  }

  /**
   * Sets a parameter on the side that is selected.
   * @param {string} name
   * @param {unknown} value
   * @returns {Setting}
   */
  settingWith(name, value) {
    const parameter = this.about.parameters.find((known) => known.name === name) ?? { name, default: null };
    const { params, order } = settingOf(this.state, this.selected.side);
    return { params: withParam(params, parameter, value), order };
  }

  /**
   * Goes on with another token at a position.
   * @param {number} position
   * @param {Piece} token
   * @param {string} change
   */
  branch(position, token, change) {
    const before = this.state.forced.filter((forced) => forced.position < position);
    this.change(change, { forced: [...before, { position, token: token.id }] }, position);
  }

  /**
   * @param {Side} side
   * @param {number} position
   */
  select(side, position) {
    if (side === this.selected.side && position === this.selected.position) return;
    this.selected = { side, position };
    this.#trial = null;
    this.#tell("selected");
    this.#lookAgain();
  }

  /**
   * Looks at a draw without selecting it.
   * @param {Side} side
   * @param {number} position
   * @param {(look: Look) => void} deliver is not called where the answer is an error or another question came
   */
  glance(side, position, deliver) {
    const question = this.#lookQuestion(side, position, settingOf(this.state, side));
    if (question !== null) this.#glances.ask(question, (look) => look !== null && deliver(look));
  }

  /** Shows the state: its texts, and the selected draw. */
  #show() {
    this.#trial = null;
    if (this.state.beside === null && this.selected.side === "beside")
      this.selected = { ...this.selected, side: "main" };
    this.run = this.#runs.write(writeQuestion(this.state, "main"));
    this.besideRun = this.state.beside === null ? null : this.#runs.write(writeQuestion(this.state, "beside"));
    this.#runs.stopOthers(this.besideRun === null ? [this.run] : [this.run, this.besideRun]);
    this.#tell("state");
    this.#isLookDue = true;
    this.#textChanged();
  }

  /** Forgets what draws looked like whose tokens were taken back. @param {number} position */
  #forgetFrom(position) {
    this.#looks.forget(position);
    this.#glances.forget(position);
    if (this.selected.position < position) return;
    this.#isLookDue = true;
    this.#lookedAt = null;
  }

  #textChanged() {
    const run = this.selectedRun;
    const hasEnded = run.status !== "writing";
    if (hasEnded && this.selected.position >= run.tokens.length) {
      this.selected = { ...this.selected, position: Math.max(0, run.tokens.length - 1) };
      this.#isLookDue = true;
      this.#tell("selected");
    }
    this.#tell("text");
    if (this.#isLookDue && run.tokens.length > this.selected.position) this.#lookAgain();
  }

  #lookAgain() {
    const { side, position } = this.selected;
    const question = this.#lookQuestion(side, position, this.setting);
    this.#isLookDue = question === null;
    if (question === null) return;
    this.#looks.ask(question, (look, failure) => {
      // Another draw was selected meanwhile, which has its own answer.
      if (side !== this.selected.side || position !== this.selected.position) return;
      this.look = look;
      this.#lookedAt = keyOf(side, question);
      this.lookFailure = failure;
      this.#tell("look");
    });
  }

  /**
   * @param {Side} side
   * @param {number} position
   * @param {Setting} setting
   * @returns {LookQuestion | null} null where the text before is not there yet, or its seed
   */
  #lookQuestion(side, position, { params, order }) {
    const run = side === "beside" ? this.besideRun : this.run;
    if (run === null || run.seed === "" || run.tokens.length < position) return null;
    const tokens = run.tokens.slice(0, position).map((token) => token.id);
    const { prompt, forced, draft, schema } = this.state;
    // Where the reader sets no seed, one was chosen for the text, and a draw is one of that.
    const seeded = { ...params, seed: params.seed ?? run.seed };
    const question = { prompt, params: seeded, forced, draft, schema, tokens, position, listed: LISTED };
    return order === null ? question : { ...question, order };
  }

  /** @param {Event} event */
  #tell(event) {
    for (const listener of this.#listeners.get(event) ?? []) listener();
  }
}

/**
 * What tells looks apart.
 * @param {Side} side
 * @param {LookQuestion} question
 */
function keyOf(side, question) {
  return `${side} ${JSON.stringify(question)}`;
}
