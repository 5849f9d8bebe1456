// The connection: overviews asked for one after the other, events streamed. It tells what it has and how it stands, and
// gives up never. A page that nobody sees asks for nothing.

/** From one overview's answer to the next question. */
const OVERVIEW_MS = 1000;
/** A page that shares the gateway's few streams with too many others asks less often. */
const WITHOUT_STREAM_MS = 3000;
const TIMEOUT_MS = 5000;
/** The server says something at least every 5 s: after this the stream is dead. */
const DEAF_MS = 12_000;
const RETRY_MS = [500, 1000, 2000, 4000, 5000];

async function json(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

/**
 * Events: `overview` (detail: the overview), `timeline` (detail: all entries anew), `happened` (detail: one event),
 * `status` (detail: `{state, since}`: `live`, `polling` where there is no stream to be had, `lost`).
 */
export class Live extends EventTarget {
  #state = "connecting";
  #since = Date.now();
  #failures = 0;
  #timer = null;
  #stream = null;
  #streamTimer = null;
  #streamFailures = 0;
  #heard = 0;
  #lastId = null;
  #wants = false;
  #asking = false;

  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#rest() : this.#wake()));
    // A browser that knows that the network is back need not wait for the next try.
    window.addEventListener("online", () => this.#wake());
    setInterval(() => this.#listenForLife(), 2000);
    this.#wake();
  }

  /** The history of the node, or of a target by key; null if there is none. */
  async history(span, target) {
    const query = new URLSearchParams({ span, ...(target ? { target } : {}) });
    try {
      return await json(`api/history?${query}`);
    } catch {
      return null;
    }
  }

  /** The failovers that are on record; null if nobody answers. */
  async failovers() {
    try {
      return await json("api/failovers");
    } catch {
      return null;
    }
  }

  /** Asks for an overview now. */
  soon() {
    if (!document.hidden) this.#next(30);
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #become(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.#since = Date.now();
    this.#tell("status", { state, since: this.#since });
  }

  #wake() {
    this.#next(0);
    if (!this.#stream) this.#follow();
  }

  #rest() {
    clearTimeout(this.#timer);
    this.#hangUp();
  }

  #hangUp() {
    clearTimeout(this.#streamTimer);
    this.#stream?.close();
    this.#stream = null;
  }

  #next(ms) {
    if (this.#asking) {
      this.#wants ||= ms < OVERVIEW_MS;
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), ms);
  }

  async #ask() {
    this.#asking = true;
    const begun = performance.now();
    this.#wants = false;
    try {
      const overview = await json("api/overview");
      this.#failures = 0;
      this.#tell("overview", overview);
      if (this.#state === "lost") {
        // It is back: so will be the stream, most likely.
        this.#streamFailures = 0;
        this.#follow();
      }
      this.#settle();
    } catch {
      this.#failures += 1;
      // One answer may get lost; two are a lost connection.
      if (this.#failures > 1 || this.#state === "connecting") this.#become("lost");
    }
    this.#asking = false;
    if (document.hidden) return;
    // Of very many targets it takes a while to tell and to draw: most of the time is left to others.
    const busy = 3 * (performance.now() - begun);
    const calm = Math.max(busy, this.#state === "polling" ? WITHOUT_STREAM_MS : OVERVIEW_MS);
    this.#next(
      this.#failures > 0
        ? RETRY_MS[Math.min(this.#failures, RETRY_MS.length) - 1]
        : this.#wants
          ? Math.max(busy, 100)
          : calm,
    );
  }

  #settle() {
    if (this.#stream?.readyState === EventSource.OPEN) this.#become("live");
    else this.#become(this.#streamFailures > 0 ? "polling" : "connecting");
  }

  async #follow() {
    this.#hangUp();
    // Set at once, so that nobody follows twice.
    this.#streamTimer = setTimeout(() => this.#follow(), 2 * TIMEOUT_MS);
    try {
      // Where this page was already, the stream tells what it missed.
      if (this.#lastId === null || this.#streamFailures > 0) await this.#readTimeline();
      this.#listen();
    } catch {
      this.#again();
    }
  }

  async #readTimeline() {
    const timeline = await json("api/timeline");
    this.#lastId = timeline.LastEventId;
    this.#tell("timeline", timeline);
  }

  #listen() {
    clearTimeout(this.#streamTimer);
    const stream = new EventSource(`events?after=${encodeURIComponent(this.#lastId)}`);
    this.#stream = stream;
    const heard = () => {
      this.#heard = performance.now();
    };
    heard();
    stream.addEventListener("open", () => {
      heard();
      this.#streamFailures = 0;
      this.#become("live");
    });
    stream.addEventListener("beat", heard);
    stream.addEventListener("happened", (event) => {
      heard();
      this.#lastId = event.lastEventId;
      this.#tell("happened", JSON.parse(event.data));
    });
    // Events that this page cannot have any more, or a gateway that was started anew: what there is, is read anew.
    stream.addEventListener("gap", () => {
      heard();
      this.#streamFailures = Math.max(1, this.#streamFailures);
      this.#follow();
    });
    stream.addEventListener("error", () => {
      // The browser comes back by itself from a broken connection, with the last event's id; not from a refusal.
      if (this.#stream === stream && stream.readyState === EventSource.CLOSED) this.#again();
    });
  }

  #again() {
    this.#hangUp();
    if (document.hidden) return;
    this.#streamFailures += 1;
    if (this.#state === "live" || this.#state === "connecting") this.#become("polling");
    const wait = RETRY_MS[Math.min(this.#streamFailures, RETRY_MS.length) - 1];
    this.#streamTimer = setTimeout(() => this.#follow(), wait);
  }

  // A connection may die without a word.
  #listenForLife() {
    if (this.#stream && !document.hidden && performance.now() - this.#heard > DEAF_MS) this.#again();
  }
}
