// The translator of chapter 11 in plain JavaScript: number words, tokens, and the Transformer.

const WORDS = {
  en: {
    small: "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    tens: "twenty thirty forty fifty sixty seventy eighty ninety",
    large: ["hundred", "thousand"],
  },
  de: {
    small: "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
    tens: "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    large: ["hundert", "tausend"],
  },
};
const LIMIT = 1_000_000; // of the numbers
const [PAD, BOS, EOS, UNKNOWN] = [0, 1, 2, 3]; // ids
const EPSILON = 1e-5; // of the layer norms
const ATTENTIONS = { encoder: "encoder self_attn add_norm1", decoder: "decoder self_attn add_norm1", cross: "decoder cross_attn add_norm2" };

/** Write a number from 0 to 999,999 in English ("en") or German ("de") words. */
export function spell(number, language) {
  const { small, tens, large } = WORDS[language];
  const space = language === "en" ? " " : "";
  const spelled = (value) => {
    if (value < 20) return small.split(" ")[value];
    const size = value < 100 ? 10 : value < 1000 ? 100 : 1000;
    const [count, rest] = [Math.floor(value / size), value % size];
    const many = size === 10 ? tens.split(" ")[count - 2] : spelled(count) + space + large[size === 100 ? 0 : 1];
    if (rest === 0) return many;
    if (size > 10) return many + space + spelled(rest);
    return language === "en" ? `${many}-${spelled(rest)}` : `${spelled(rest)}und${many}`;
  };
  return spelled(number) + (language === "de" && number % 100 === 1 ? "s" : "");
}

/** Read a number below one million in digits or in English words, or say what is wrong. */
export function readNumber(typed) {
  const text = typed.toLowerCase().trim().replace(/\s+/g, " ");
  const digits = text.replaceAll(",", "");
  const { small, tens, large: [hundred, thousand] } = WORDS.en;
  let [number, below] = [0, 0];
  if (/^\d+$/.test(digits)) number = Number(digits);
  else for (const word of text.split(/[ -]/)) {
    if (word === thousand) [number, below] = [1000 * Math.max(1, below), 0];
    else if (word === hundred) below = 100 * Math.max(1, below);
    else if (tens.split(" ").includes(word)) below += 10 * (tens.split(" ").indexOf(word) + 2);
    else below += small.split(" ").includes(word) ? small.split(" ").indexOf(word) : NaN;
  }
  number += below;
  if (!(number < LIMIT)) throw new Error(`“${text.slice(0, 30)}” is not a number below one million. For example, write 345 or three hundred forty-five.`);
  const spelled = spell(number, "en");
  if (text !== spelled && !/\d/.test(text)) throw new Error(`No number is spelled so. Did you mean “${spelled}”?`);
  return number;
}

/** Turn the bits of a 16-bit float into a number. */
function half(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
  return bits >> 15 ? -size : size;
}

function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, each) => sum + each, 0);
  return powers.map((each) => each / total);
}

/** A trained translator, read from a file of the format safetensors with 16-bit floats. */
export class Translator {
  constructor(buffer) {
    const start = 8 + Number(new DataView(buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, start - 8)));
    const { __metadata__: about, ...tensors } = header;
    this.config = JSON.parse(about.config);
    this.checksum = about.checksum;
    const { vocab, merges } = JSON.parse(about.tokenizer).model;
    this.ids = vocab;
    this.tokens = Object.keys(vocab).sort((one, other) => vocab[one] - vocab[other]);
    this.ranks = new Map(merges.map((pair, rank) => [pair.join(" "), rank]));
    this.weights = {};
    for (const [name, { data_offsets: [from, to] }] of Object.entries(tensors)) {
      const bits = new Uint16Array(buffer.slice(start + from, start + to));
      this.weights[name] = new Float32Array(bits.length);
      for (let n = 0; n < bits.length; n++) this.weights[name][n] = half(bits[n]);
    }
  }

  /** Turn words into ids: merge the neighbors that were learned first, until none are left. */
  encode(text) {
    return text.split(" ").flatMap((word) => {
      const parts = [...`▁${word}`];
      for (;;) {
        const ranks = parts.map((part, n) => this.ranks.get(`${part} ${parts[n + 1]}`) ?? Infinity);
        const place = ranks.indexOf(Math.min(...ranks));
        if (ranks[place] === Infinity) return parts.map((part) => this.ids[part] ?? UNKNOWN);
        parts.splice(place, 2, parts[place] + parts[place + 1]);
      }
    });
  }

  /** Multiply a vector by the matrix of a linear layer, and add its bias. */
  linear(name, row) {
    const [weight, bias] = [this.weights[`${name}.weight`], this.weights[`${name}.bias`]];
    const result = new Float32Array(weight.length / row.length);
    for (let out = 0, place = 0; out < result.length; out++) {
      let sum = bias ? bias[out] : 0;
      for (let n = 0; n < row.length; n++) sum += weight[place++] * row[n];
      result[out] = sum;
    }
    return result;
  }

  /** Look up a token, multiply by √d_model, and add the sines and cosines of its position. */
  embed(id, position) {
    const width = this.config.d_model;
    return Float32Array.from({ length: width }, (_, n) => {
      const angle = position / 10000 ** ((n - (n % 2)) / width);
      const scaled = this.weights["tgt_embedding.weight"][id * width + n] * Math.sqrt(width);
      return scaled + (n % 2 ? Math.cos(angle) : Math.sin(angle));
    });
  }

  /** Add a sub-layer's output to its input, and normalize the sum. */
  addNorm(name, row, output) {
    const sum = row.map((each, n) => each + output[n]);
    const mean = sum.reduce((total, each) => total + each, 0) / sum.length;
    const variance = sum.reduce((total, each) => total + (each - mean) ** 2, 0) / sum.length;
    const [gain, shift] = ["weight", "bias"].map((part) => this.weights[`${name}.norm.${part}`]);
    return sum.map((each, n) => (gain[n] * (each - mean)) / Math.sqrt(variance + EPSILON) + shift[n]);
  }

  feedForward(layer, norm, row) {
    const features = this.linear(`${layer}.feed_forward.linear1`, row).map((x) => Math.max(x, 0));
    return this.addNorm(`${layer}.${norm}`, row, this.linear(`${layer}.feed_forward.linear2`, features));
  }

  /** Translate English words greedily, without the heads in `off`, a list of [place, layer, head]. */
  translate(words, off = [], limit = 14) {
    const layers = [...Array(this.config.num_layers).keys()];
    const heads = [...Array(this.config.num_heads).keys()];
    const without = new Set(off.map(String));
    const maps = {};
    for (const place of Object.keys(ATTENTIONS)) maps[place] = layers.map(() => heads.map(() => []));

    /** Project vectors to the keys and values of an attention. */
    const project = (place, layer, rows) => {
      const [stack, attention] = ATTENTIONS[place].split(" ");
      const name = `${stack}.layers.${layer}.${attention}`;
      return { keys: rows.map((row) => this.linear(`${name}.w_k`, row)), values: rows.map((row) => this.linear(`${name}.w_v`, row)) };
    };
    /** Let a vector attend to keys and values; heads that are off give zeros to w_o. */
    const attend = (place, layer, row, { keys, values }) => {
      const [stack, attention, norm] = ATTENTIONS[place].split(" ");
      const name = `${stack}.layers.${layer}`;
      const query = this.linear(`${name}.${attention}.w_q`, row);
      const joined = new Float32Array(row.length);
      const width = row.length / heads.length;
      for (const head of heads) {
        const [start, end] = [head * width, (head + 1) * width];
        const weights = softmax(keys.map((key) => {
          let score = 0;
          for (let n = start; n < end; n++) score += query[n] * key[n];
          return score / Math.sqrt(width);
        }));
        maps[place][layer][head].push(weights);
        if (without.has(`${place},${layer},${head}`)) continue;
        for (let n = start; n < end; n++) joined[n] = weights.reduce((sum, weight, s) => sum + weight * values[s][n], 0);
      }
      return this.addNorm(`${name}.${norm}`, row, this.linear(`${name}.${attention}.w_o`, joined));
    };

    const source = this.encode(words);
    let memory = source.map((id, position) => this.embed(id, position));
    for (const layer of layers) {
      const read = project("encoder", layer, memory);
      const mixed = memory.map((row) => attend("encoder", layer, row, read));
      memory = mixed.map((row) => this.feedForward(`encoder.layers.${layer}`, "add_norm2", row));
    }
    const read = layers.map((layer) => project("cross", layer, memory));
    const past = layers.map(() => ({ keys: [], values: [] }));
    const [written, logits] = [[], []];
    while (written.length < limit && written.at(-1) !== EOS) {
      let row = this.embed(written.at(-1) ?? BOS, written.length);
      for (const layer of layers) {
        const newest = project("decoder", layer, [row]);
        past[layer].keys.push(...newest.keys);
        past[layer].values.push(...newest.values);
        row = attend("cross", layer, attend("decoder", layer, row, past[layer]), read[layer]);
        row = this.feedForward(`decoder.layers.${layer}`, "add_norm3", row);
      }
      logits.push([...this.linear("tgt_embedding", row)]);
      const scores = logits.at(-1).with(PAD, -Infinity); // padding is never written
      written.push(scores.indexOf(Math.max(...scores)));
    }
    for (const row of maps.decoder.flat(2)) while (row.length < written.length) row.push(0);
    const text = written.filter((id) => id > UNKNOWN).map((id) => this.tokens[id]).join("");
    const named = (ids) => ids.map((id) => this.tokens[id]);
    return { source: named(source), written: named(written), text: text.replace(/^▁/, "").replaceAll("▁", " "), maps, logits };
  }
}
