// The translator of chapter 11 in plain JavaScript: it reads and writes number words.
import { dot, mix, range, sinusoid, softmax, sum } from "./numbers.js";

const [PAD, BOS, EOS, UNKNOWN] = [0, 1, 2, 3]; // ids
const LIMIT = 14; // the most tokens to write
const EPSILON = 1e-5; // of the layer norms
const namesOf = (place, layer) =>
  place === "cross"
    ? [`decoder.layers.${layer}.cross_attn`, `decoder.layers.${layer}.add_norm2`]
    : [`${place}.layers.${layer}.self_attn`, `${place}.layers.${layer}.add_norm1`];

/** Read a number below one million in digits, or throw an Error. */
export function readNumber(typed) {
  const digits = typed.trim().replaceAll(",", "");
  if (/^0*\d{1,6}$/.test(digits)) return Number(digits);
  throw new Error(`“${typed.slice(0, 30)}” is not a number below one million, such as 45,345.`);
}

/** A trained translator from a safetensors file, which also contains tokens and number words. */
export class Translator {
  constructor(buffer) {
    const start = 8 + Number(new DataView(buffer).getBigUint64(0, true));
    const header = new TextDecoder().decode(buffer.slice(8, start));
    const { __metadata__: about, ...tensors } = JSON.parse(header);
    for (const name of ["config", "tokens", "english", "german"])
      this[name] = JSON.parse(about[name]);
    this.weights = {};
    for (const [name, { data_offsets: ends }] of Object.entries(tensors)) {
      const halves = buffer.slice(...ends.map((end) => start + end));
      this.weights[name] = Float32Array.from(new Float16Array(halves));
    }
  }

  /** Multiply a vector by the matrix of a linear layer, and add its bias. */
  linear(name, row) {
    const [weight, bias] = [this.weights[`${name}.weight`], this.weights[`${name}.bias`]];
    const result = new Float32Array(weight.length / row.length);
    for (let out = 0, place = 0; out < result.length; out++) {
      let total = bias ? bias[out] : 0;
      for (let n = 0; n < row.length; n++) total += weight[place++] * row[n];
      result[out] = total;
    }
    return result;
  }

  /** Look up a token, multiply by √d_model, and add the sines and cosines of its position. */
  embed(id, position) {
    const width = this.config.d_model;
    const vector = this.weights["tgt_embedding.weight"].slice(id * width, (id + 1) * width);
    return vector.map((value, n) => value * Math.sqrt(width) + sinusoid(position, n, width));
  }

  /** Add a sub-layer's output to its input, and normalize the sum. */
  addNorm(name, row, output) {
    const [gain, shift] = ["weight", "bias"].map((part) => this.weights[`${name}.norm.${part}`]);
    const added = row.map((each, n) => each + output[n]);
    const mean = sum(added) / added.length;
    const centered = added.map((each) => each - mean);
    const deviation = Math.sqrt(dot(centered, centered) / added.length + EPSILON);
    return centered.map((each, n) => (gain[n] * each) / deviation + shift[n]);
  }

  feedForward(layer, norm, row) {
    const features = this.linear(`${layer}.feed_forward.linear1`, row).map((x) => Math.max(x, 0));
    const output = this.linear(`${layer}.feed_forward.linear2`, features);
    return this.addNorm(`${layer}.${norm}`, row, output);
  }

  /** Translate a number greedily, without the heads in `off`, a list of [place, layer, head]. */
  translate(number, off) {
    const rest = number % 1000;
    const parts = number ? [number - rest, rest].filter(Boolean) : [0];
    const source = parts.flatMap((part) => this.english[part]);
    const german = parts.map((part) => this.german[part]).join(""); // the right translation
    const [layers, heads] = [range(this.config.num_layers), range(this.config.num_heads)];
    const empty = () => layers.map(() => heads.map(() => []));
    const maps = { encoder: empty(), decoder: empty(), cross: empty() };

    /** Project vectors to the keys and values of an attention layer. */
    const project = (place, layer, rows) => {
      const [name] = namesOf(place, layer);
      return ["w_k", "w_v"].map((part) => rows.map((row) => this.linear(`${name}.${part}`, row)));
    };
    /** Let a vector attend to keys and values; heads that are off give zeros to w_o. */
    const attend = (place, layer, row, [keys, values]) => {
      const [name, norm] = namesOf(place, layer);
      const query = this.linear(`${name}.w_q`, row);
      const joined = new Float32Array(row.length);
      const width = row.length / heads.length;
      for (const head of heads) {
        const part = (vector) => vector.subarray(head * width, (head + 1) * width);
        const weights = softmax(keys.map((key) => dot(part(query), part(key)) / Math.sqrt(width)));
        maps[place][layer][head].push(weights);
        const isOff = off.some((each) => `${each}` === `${[place, layer, head]}`);
        if (!isOff) part(joined).set(mix(weights, values.map(part)));
      }
      return this.addNorm(norm, row, this.linear(`${name}.w_o`, joined));
    };

    let memory = source.map((id, position) => this.embed(id, position));
    for (const layer of layers) {
      const read = project("encoder", layer, memory);
      const mixed = memory.map((row) => attend("encoder", layer, row, read));
      memory = mixed.map((row) => this.feedForward(`encoder.layers.${layer}`, "add_norm2", row));
    }
    const read = layers.map((layer) => project("cross", layer, memory));
    const past = layers.map(() => [[], []]); // keys and values
    const [written, logits] = [[], []];
    while (written.length < LIMIT && written.at(-1) !== EOS) {
      let row = this.embed(written.at(-1) ?? BOS, written.length);
      for (const layer of layers) {
        for (const [n, [newest]] of project("decoder", layer, [row]).entries())
          past[layer][n].push(newest);
        row = attend("cross", layer, attend("decoder", layer, row, past[layer]), read[layer]);
        row = this.feedForward(`decoder.layers.${layer}`, "add_norm3", row);
      }
      logits.push([...this.linear("tgt_embedding", row)]);
      const scores = logits.at(-1).with(PAD, -Infinity); // padding is never written
      written.push(scores.indexOf(Math.max(...scores)));
    }
    for (const row of maps.decoder.flat(2)) while (row.length < written.length) row.push(0);
    const named = (ids) => ids.map((id) => this.tokens[id]);
    const joined = named(written.filter((id) => id > UNKNOWN)).join("");
    const text = joined.replaceAll("▁", " ").trim();
    return {
      source: named(source),
      written: named(written),
      text,
      ids: written,
      german,
      maps,
      logits,
    };
  }

  /** Return how sure a right translation is, as the smallest lead of a token; −1 if it is wrong. */
  certainty(number, off) {
    const { text, german, logits } = this.translate(number, off);
    const order = logits.map((scores) => scores.with(PAD, -Infinity).sort((a, b) => b - a));
    return text === german ? Math.min(...order.map(([first, second]) => first - second)) : -1;
  }
}
