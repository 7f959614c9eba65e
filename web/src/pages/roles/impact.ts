import type { Api } from "../../api/client";
import { countOf, formatCount } from "../../lib/numbers";

type User = Api["UserImpact"];

/** Users by lost traces, then by gained traces. */
export function sortByLoss(users: readonly User[]): User[] {
  return users.toSorted(
    (a, b) =>
      b.lost - a.lost ||
      b.gained - a.gained ||
      (a.username < b.username ? -1 : a.username > b.username ? 1 : 0),
  );
}

/** A number of traces. From a sample it is an estimate, and zero means that none was found. */
export function tracesText(count: number, sampled: boolean): string {
  return sampled ? (count === 0 ? "none found" : `about ${formatCount(count)}`) : formatCount(count);
}

/** Summary of the number of affected users. They are listed first, but the list may be incomplete. */
export function headline(users: readonly User[], compared: number, sampled: boolean): string {
  const losingUsers = users.filter(({ lost }) => lost > 0).length;
  const gainingUsers = users.filter(({ gained }) => gained > 0).length;
  const prefix = sampled ? "In the sample, " : "";
  if (losingUsers === 0 && gainingUsers === 0) {
    return capitalize(`${prefix}no change for ${countOf(compared, "compared user")}.`);
  }
  const isLowerBound = users.length < compared && users.every(({ lost, gained }) => lost > 0 || gained > 0);
  const parts = [
    losingUsers === 0 ? [] : `${countOf(losingUsers, "user loses", "users lose")} traces`,
    gainingUsers === 0
      ? []
      : `${countOf(gainingUsers, "user gains", "users gain")} ${losingUsers === 0 ? "traces" : "some"}`,
  ].flat();
  return capitalize(
    `${prefix}${isLowerBound ? "at least " : ""}${parts.join(", ")}, of ${compared.toLocaleString("en")} compared.`,
  );
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

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
  return `Estimated from ${share} of the time range: counting all of it would take longer.`;
}

type SharedValue = Api["SharedValue"];

/** Values that occur only on spans that satisfy no policy, and the others; each in the original order. */
export function splitCollateral(values: readonly SharedValue[]): {
  collateralOnly: SharedValue[];
  onMatchingSpans: SharedValue[];
} {
  return {
    collateralOnly: values.filter((value) => value.only_shared),
    onMatchingSpans: values.filter((value) => !value.only_shared),
  };
}
