import { isLightColor } from "@mantine/core";

/** Hues that most people can distinguish, also with colour vision deficiency, on light and on dark backgrounds. None is near
 * red, which means an error. */
const HUES = [211, 32, 160, 318, 265, 50, 188, 72, 95, 295, 236, 130];

function hash(text: string): number {
  let value = 2_166_136_261;
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 16_777_619);
  }
  return value >>> 0;
}

const LIGHTNESSES = 3;

/** Colour of a service: the same on every page, in both themes. */
export function serviceColour(service: string): string {
  const { hue, lightness } = preferredShade(service);
  return colour(hue, lightness);
}

/** Colours of services that are shown together. A service keeps the colour of the other pages, unless an earlier one has its hue:
 * then it gets the next unused hue or, when all are used, another lightness. */
export function distinctColours(services: readonly string[]): ReadonlyMap<string, string> {
  const used = HUES.map(() => new Set<number>());
  return new Map(
    services.map((service) => {
      const preferred = preferredShade(service);
      const fewest = Math.min(...used.map((lightnesses) => lightnesses.size));
      const hues = cycleFrom(preferred.hue, HUES.length);
      const hue = hues.find((candidate) => used[candidate]?.size === fewest) ?? preferred.hue;
      const lightnesses = cycleFrom(preferred.lightness, LIGHTNESSES);
      const lightness = lightnesses.find((candidate) => !used[hue]?.has(candidate)) ?? preferred.lightness;
      used[hue]?.add(lightness);
      return [service, colour(hue, lightness)];
    }),
  );
}

/** All numbers below a length, beginning with `start`. */
function cycleFrom(start: number, length: number): number[] {
  return Array.from({ length }, (_, step) => (start + step) % length);
}

/** Hue as index, and lightness as step. */
function preferredShade(service: string): { hue: number; lightness: number } {
  const value = hash(service);
  return { hue: value % HUES.length, lightness: (value >>> 8) % LIGHTNESSES };
}

function colour(hue: number, lightness: number): string {
  const hsl = (base: number) => `hsl(${HUES[hue] ?? 0} 62% ${base + lightness * 4}%)`;
  return `light-dark(${hsl(38)}, ${hsl(62)})`;
}

/** Returns black or white, whichever is easier to read on a colour given as `rgb(…)`. One of them always has a contrast of at
 * least 4.5. */
export function contrastingTextColour(colour: string): "black" | "white" {
  // The luminance at which both have the same contrast.
  return isLightColor(colour, 0.1791) ? "black" : "white";
}
