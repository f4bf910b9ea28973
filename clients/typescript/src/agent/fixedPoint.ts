/** Fixed-point numbers with F fraction bits as integers of 64 bits: docs/protocol.md, "Fixed point". */

import { OutOfRange, Tampered } from "./errors.js";

export class FixedPoint {
  /** The largest magnitude of one term, in units of 2^-F. */
  readonly largest: bigint;

  /** For sums of `terms` numbers of magnitude at most `bound`. OutOfRange if the sum might not fit 64 bits. */
  constructor(
    readonly bound: number,
    readonly terms: number,
    readonly fractionBits: number,
  ) {
    if (!(Number.isFinite(bound) && bound >= 0 && bound < 2 ** 64 && Number.isInteger(fractionBits) && fractionBits >= 0 && fractionBits < 64)) {
      throw new OutOfRange(`numbers up to ${bound} with ${fractionBits} fraction bits do not fit in a slot of 64 bits`);
    }
    this.largest = BigInt(Math.ceil(bound * 2 ** fractionBits)) + 1n;
    if (BigInt(terms) * this.largest >= 2n ** 63n) {
      throw new OutOfRange(`${terms} numbers up to ${bound} with ${fractionBits} fraction bits do not fit in a slot of 64 bits`);
    }
  }

  /** The nearest grid points, ties to even. OutOfRange if a value is not finite or exceeds the bound. */
  encode(values: readonly number[]): bigint[] {
    return values.map((value) => {
      if (!(Math.abs(value) <= this.bound)) throw new OutOfRange(`a value of magnitude ${Math.abs(value)} is beyond the bound ${this.bound} of this sum`);
      return BigInt(nearest(value * 2 ** this.fractionBits));
    });
  }

  /** The numbers at these grid points. Tampered if one is larger than a sum of the terms can be. */
  decode(sums: readonly bigint[]): number[] {
    const most = BigInt(this.terms) * this.largest;
    if (sums.some((one) => one > most || one < -most)) throw new Tampered("a sum is larger than its terms can make it");
    return sums.map((one) => Number(one) / 2 ** this.fractionBits);
  }
}

function nearest(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}
