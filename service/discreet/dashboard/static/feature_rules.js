// Policies that are rules on features, `age >= 65 and pressure > 140 -> treat, else none`, as `discreet_client.feature_rules`
// reads them; a test holds the two together. The first condition that holds decides the action.

const LONGEST = 200;
const MOST_WRITTEN = 10 * LONGEST; // the longest text that is parsed: spaces, parentheses and `not` may be removed
const DEEPEST = 20;
const WRITTEN = "such as “age >= 65 and pressure > 140 -> treat, else none”";
const SIGNS = {
  ">=": (own, value) => own >= value,
  "<=": (own, value) => own <= value,
  ">": (own, value) => own > value,
  "<": (own, value) => own < value,
  "=": (own, value) => own === value,
  "!=": (own, value) => own !== value,
};
const OF_TEXTS = ["=", "!="];
const WRITINGS = { "≥": ">=", "≤": "<=", "≠": "!=", "==": "=", "→": "->", ";": "," };
const KEYWORDS = ["and", "or", "not", "else"];
const WORD = String.raw`(?:[\p{L}\p{N}_.%/]|-(?!>))*`;
const PART = new RegExp(
  String.raw`\s*(?:(->|→|>=|<=|==|!=|≥|≤|≠|[<>=(),;])|([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?![\p{L}\p{N}_.]))|"([^"]*)"|([\p{L}\p{N}_]${WORD}))`,
  "uy",
);
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u; // characters that are invisible, or that reorder visible ones
const PLAIN = new RegExp(String.raw`^[\p{L}_]${WORD}(?: [\p{L}_]${WORD})*$`, "u");

const quoted = (name) => (PLAIN.test(name) && !name.split(" ").some((word) => KEYWORDS.includes(word.toLowerCase())) ? name : `"${name}"`);

const written = {
  comparison: ({ feature, sign, value, ofNumbers }) => `${quoted(feature)} ${sign} ${ofNumbers ? value : quoted(value)}`,
  joined: ({ word, parts }) => parts.map((one) => (one.kind === "joined" ? `(${say(one)})` : say(one))).join(` ${word} `),
  not: ({ part }) => `not (${say(part)})`,
};
const say = (condition) => written[condition.kind](condition);

const holding = {
  comparison: ({ feature, sign, value, ofNumbers }, values, nameOf) => SIGNS[sign](values.get(feature), ofNumbers ? Number(value) : nameOf(value)),
  joined: ({ word, parts }, values, nameOf) => parts[word === "and" ? "every" : "some"]((one) => holds(one, values, nameOf)),
  not: ({ part }, values, nameOf) => !holds(part, values, nameOf),
};
const holds = (condition, values, nameOf) => holding[condition.kind](condition, values, nameOf);

function* comparisons(condition) {
  if (condition.kind === "comparison") yield condition;
  for (const one of condition.kind === "not" ? [condition.part] : (condition.parts ?? [])) yield* comparisons(one);
}

export class Rule {
  // `nameOf` returns the canonical form of a name; throws an Error for a text that is not a rule.
  constructor(text, nameOf) {
    this.nameOf = nameOf;
    const tooLong = `a rule has at most ${LONGEST} characters, since everybody who reads an answer reads it`;
    if (text.length > MOST_WRITTEN) throw new Error(tooLong);
    Object.assign(this, new Parser(text).rule());
    this.compared = this.cases.flatMap(([condition]) => [...comparisons(condition)]);
    this.features = [...new Set(this.compared.map(({ feature }) => feature))];
    this.ofTexts = new Set(this.compared.filter(({ ofNumbers }) => !ofNumbers).map(({ feature }) => feature));
    this.actions = [...new Set([...this.cases.map(([, action]) => action), this.otherwise].map(nameOf))];
    if ([...this.text].length > LONGEST) throw new Error(tooLong);
    const mixed = this.compared.find(({ feature, ofNumbers }) => ofNumbers && this.ofTexts.has(feature));
    if (mixed) throw new Error(`${mixed.feature} is compared with a number and with a text: it can be one of the two`);
  }

  // The canonical text of the rule, which is published.
  get text() {
    return `${this.cases.map(([condition, action]) => `${say(condition)} -> ${quoted(action)}, `).join("")}else ${quoted(this.otherwise)}`;
  }

  // The action for the values of the features: a number, or a name if it is compared with texts.
  chosen(values) {
    const found = this.cases.find(([condition]) => holds(condition, values, this.nameOf));
    return this.nameOf(found ? found[1] : this.otherwise);
  }
}

class Parser {
  constructor(text) {
    this.text = text;
    this.parts = [];
    this.place = 0;
    this.depth = 0;
    const end = text.trimEnd().length;
    for (PART.lastIndex = 0; PART.lastIndex < end; ) {
      const from = PART.lastIndex;
      const found = PART.exec(text);
      if (!found) throw this.error(from + /^\s*/.exec(text.slice(from))[0].length, "this is neither a name, a number nor a sign");
      const [whole, sign, number, inQuotes, word] = found;
      const what = sign ? "sign" : number ? "number" : word ? "word" : "text";
      const said = sign ? (WRITINGS[sign] ?? sign) : (number ?? word ?? inQuotes);
      this.parts.push({ what, said, at: from + /^\s*/.exec(whole)[0].length });
    }
    this.parts.push({ what: "end", said: "", at: end });
  }

  error(at, says) {
    const here = this.text.slice(at, at + 20).trim().replace(new RegExp(UNSEEN, "gu"), "?");
    return new Error(`${here ? `at “${here}”` : "at the end"}: ${says}; a rule is written ${WRITTEN}`);
  }

  get next() {
    return this.parts[this.place];
  }

  get keyword() {
    const { what, said } = this.next;
    if (what === "word" && KEYWORDS.includes(said.toLowerCase())) return said.toLowerCase();
    return what === "sign" ? said : "";
  }

  take(word) {
    const found = this.keyword === word;
    if (found) this.place += 1;
    return found;
  }

  need(word, says) {
    if (!this.take(word)) throw this.error(this.next.at, says);
  }

  rule() {
    const cases = [];
    while (!this.take("else")) {
      const condition = this.joined("or");
      this.need("->", "a condition is followed by -> and an action");
      cases.push([condition, this.named("an action")]);
      this.need(",", "an action is followed by a comma, and the last one by else and an action");
    }
    const otherwise = this.named("the action after else");
    if (this.next.what !== "end") throw this.error(this.next.at, "nothing may follow the action after else");
    return { cases, otherwise };
  }

  joined(word) {
    this.depth += 1;
    if (this.depth > 2 * DEEPEST) throw this.error(this.next.at, "this is nested in too many parentheses");
    const parts = [];
    do {
      const one = word === "or" ? this.joined("and") : this.single();
      parts.push(...(one.kind === "joined" && one.word === word ? one.parts : [one]));
    } while (this.take(word));
    this.depth -= 1;
    return parts.length === 1 ? parts[0] : { kind: "joined", word, parts };
  }

  single() {
    let denied = false;
    while (this.take("not")) denied = !denied;
    let found;
    if (this.take("(")) {
      found = this.joined("or");
      this.need(")", "a closing parenthesis is needed here");
    } else {
      found = this.comparison();
    }
    if (!denied) return found;
    return found.kind === "not" ? found.part : { kind: "not", part: found };
  }

  comparison() {
    const feature = this.named("the name of a feature");
    const { at } = this.next;
    const sign = this.keyword;
    if (!Object.hasOwn(SIGNS, sign)) throw this.error(at, "a feature is followed by one of >=, >, <=, <, =, !=");
    this.place += 1;
    const ofNumbers = this.next.what === "number";
    const value = ofNumbers ? this.next.said : this.named("a number or a text");
    if (!ofNumbers && !OF_TEXTS.includes(sign)) throw this.error(at, "a text can be compared only by = or !=");
    if (ofNumbers) {
      this.place += 1;
      if (["number", "word", "text"].includes(this.next.what) && !this.keyword) throw this.error(this.next.at, "a number is followed by and, or, -> or a closing parenthesis");
      if (this.keyword === "," && this.parts[this.place + 1].what === "number") throw this.error(this.next.at, "a number has a decimal point here, not a comma");
    }
    return { kind: "comparison", feature, sign, value, ofNumbers };
  }

  // One text in quotes, or words up to the next sign or keyword.
  named(what) {
    if (this.next.what === "text" && this.next.said.trim()) {
      const unseen = UNSEEN.exec(this.next.said);
      if (unseen) {
        const code = unseen[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
        throw this.error(this.next.at + 1 + unseen.index, `the character U+${code} is invisible, and everybody who reads an answer reads its rule`);
      }
      this.place += 1;
      return this.parts[this.place - 1].said.trim();
    }
    const words = [];
    while ((this.next.what === "word" && !this.keyword) || (words.length && this.next.what === "number")) {
      words.push(this.next.said);
      this.place += 1;
    }
    if (!words.length) throw this.error(this.next.at, `${what} is needed here, in quotes if it contains signs`);
    return words.join(" ");
  }
}
