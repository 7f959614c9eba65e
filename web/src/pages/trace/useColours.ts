import { useComputedColorScheme } from "@mantine/core";
import { useMemo } from "react";
import { contrastingTextColour, distinctColours, serviceColour } from "../../lib/colours";
import type { Trace } from "../../trace/model";

/** Resolved colours for canvases, which do not support `light-dark()`: of each service by number, and of marks. */
export type Colours = {
  readonly dark: boolean;
  readonly services: readonly string[];
  /** Text colour on the colour of each service. */
  readonly onServices: readonly string[];
  readonly error: string;
  readonly mark: string;
  readonly text: string;
};

const coloursByTrace = new WeakMap<Trace, ReadonlyMap<string, string>>();

/** Colour of a service of a trace, in both themes. No other service of the trace has it, as far as there are colours. */
export function serviceColourIn(trace: Trace, service: string): string {
  let colours = coloursByTrace.get(trace);
  if (colours === undefined) {
    colours = distinctColours(trace.services.map(({ name }) => name));
    coloursByTrace.set(trace, colours);
  }
  return colours.get(service) ?? serviceColour(service);
}

export function useColours(trace: Trace): Colours {
  const dark = useComputedColorScheme("light") === "dark";
  return useMemo(() => {
    const probe = document.createElement("span");
    // Set explicitly, so that the colours are resolved for this theme.
    probe.style.colorScheme = dark ? "dark" : "light";
    document.body.append(probe);
    const resolve = (colour: string) => {
      probe.style.color = colour;
      return getComputedStyle(probe).color;
    };
    const services = trace.services.map((service) => resolve(serviceColourIn(trace, service.name)));
    const colours = {
      dark,
      services,
      onServices: services.map(contrastingTextColour),
      error: dark ? "#ff8787" : "#c92a2a",
      mark: dark ? "#ffd43b" : "#e67700",
      text: dark ? "#c9c9c9" : "#000000",
    };
    probe.remove();
    return colours;
  }, [trace, dark]);
}

/** Returns the context of a canvas, sized to its element in device pixels, or `null` while it is not laid out. */
export function contextOf(
  canvas: HTMLCanvasElement | null,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  if (canvas === null || width === 0) {
    return null;
  }
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  return context;
}
