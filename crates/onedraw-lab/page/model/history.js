// Every state that the reader was in, as a tree: a change makes a branch, undo goes back to where it left.

/** @typedef {import("./state.js").State} State */

/**
 * @typedef {object} Visit
 * @property {number} id
 * @property {number | null} parent
 * @property {string} change what was done to come here, for the reader
 * @property {State} state
 * @property {number} since the position from which on the text differs from its parent's
 */

/** The most states that are kept. Beyond that the oldest ends of branches are forgotten. */
const MOST = 200;

export class History {
  /** @type {Map<number, Visit>} */
  #visits = new Map();
  /** @type {Map<number, number>} for each visit, the child that was left last */
  #last = new Map();
  #next = 0;
  #current;

  /** @param {State} state */
  constructor(state) {
    this.#current = this.#add(null, "The beginning", state, 0);
  }

  /** @returns {Visit} */
  get current() {
    return this.#current;
  }

  /** @returns {Visit[]} in the order in which they were made */
  get visits() {
    return [...this.#visits.values()];
  }

  get canUndo() {
    return this.#current.parent !== null;
  }

  get canRedo() {
    return this.#last.has(this.#current.id);
  }

  /**
   * Goes on to a new state.
   * @param {string} change
   * @param {State} state
   * @param {number} since
   */
  push(change, state, since) {
    this.#current = this.#add(this.#current.id, change, state, since);
    this.#remember();
    this.#forget();
  }

  /** Goes to a state that was visited. @param {number} id */
  visit(id) {
    this.#current = this.#visits.get(id) ?? this.#current;
    this.#remember();
  }

  undo() {
    if (this.#current.parent !== null) this.#current = this.#visits.get(this.#current.parent) ?? this.#current;
  }

  redo() {
    const child = this.#last.get(this.#current.id);
    if (child !== undefined) this.#current = this.#visits.get(child) ?? this.#current;
  }

  /** @param {number} id @returns {Visit[]} */
  children(id) {
    return this.visits.filter((visit) => visit.parent === id);
  }

  /**
   * @param {number | null} parent
   * @param {string} change
   * @param {State} state
   * @param {number} since
   * @returns {Visit}
   */
  #add(parent, change, state, since) {
    const visit = { id: this.#next++, parent, change, state, since };
    this.#visits.set(visit.id, visit);
    return visit;
  }

  /** Makes redo lead to the present state from all those above it. */
  #remember() {
    for (let visit = this.#current; visit.parent !== null;) {
      this.#last.set(visit.parent, visit.id);
      const above = this.#visits.get(visit.parent);
      if (above === undefined) return;
      visit = above;
    }
  }

  #forget() {
    while (this.#visits.size > MOST) {
      const parents = new Set(this.visits.map((visit) => visit.parent));
      const end = this.visits.find((visit) => !parents.has(visit.id) && visit !== this.#current);
      if (end === undefined) return;
      this.#visits.delete(end.id);
      if (end.parent !== null && this.#last.get(end.parent) === end.id) this.#last.delete(end.parent);
    }
  }
}
