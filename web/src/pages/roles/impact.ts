import type { Api } from "../../api/client";
import { formatCount } from "../source/numbers";
import { countOf } from "./listing";

type User = Api["UserImpact"];

/** Users by lost traces, then by gained traces. */
export function byLoss(users: readonly User[]): User[] {
  return users.toSorted(
    (one, other) =>
      other.lost - one.lost ||
      other.gained - one.gained ||
      (one.username < other.username ? -1 : one.username > other.username ? 1 : 0),
  );
}

/** A number of traces. From a sample it is an estimate, and zero means that none was found. */
export function tracesText(count: number, sampled: boolean): string {
  return sampled ? (count === 0 ? "none found" : `about ${formatCount(count)}`) : formatCount(count);
}

/** Summary of the number of affected users. They are listed first, but the list may be incomplete. */
export function headline(users: readonly User[], compared: number, sampled: boolean): string {
  const losing = users.filter(({ lost }) => lost > 0).length;
  const gaining = users.filter(({ gained }) => gained > 0).length;
  const some = sampled ? "In the sample, " : "";
  if (losing === 0 && gaining === 0) {
    const nobody = `${compared === 1 ? "the one user who was" : `none of the ${compared.toLocaleString("en")} users who were`} compared`;
    const nothing =
      compared === 1 ? `${nobody} sees neither more nor fewer traces` : `${nobody} sees more or fewer traces`;
    return sentence(`${some}${nothing}.`);
  }
  const more = users.length < compared && users.every(({ lost, gained }) => lost > 0 || gained > 0);
  const parts = [
    losing === 0 ? [] : `${countOf(losing, "user loses", "users lose")} traces`,
    gaining === 0
      ? []
      : `${countOf(gaining, "user gains", "users gain")} ${losing === 0 ? "traces" : "some"}`,
  ].flat();
  return sentence(
    `${some}${more ? "at least " : ""}${parts.join(", ")}, of ${compared.toLocaleString("en")} compared.`,
  );
}

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Size of the sample, or `null` if all traces were read. */
export function sampleText(sampled: boolean, fraction: number): string | null {
  if (!sampled) {
    return null;
  }
  const percent = fraction * 100;
  const share =
    percent >= 10
      ? `${Math.floor(percent)} %`
      : percent >= 0.1
        ? `${percent.toFixed(1)} %`
        : "less than 0.1 %";
  return `Estimated from ${share} of the time range: counting all of it would have taken longer.`;
}

type Shared = Api["SharedValue"];

/** Values that occur only on spans that satisfy no policy, and the others; each in the original order. */
export function bySharing(values: readonly Shared[]): { only: Shared[]; also: Shared[] } {
  return {
    only: values.filter((value) => value.only_shared),
    also: values.filter((value) => !value.only_shared),
  };
}
