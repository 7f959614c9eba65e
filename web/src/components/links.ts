import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import { type ComponentPropsWithRef, createElement } from "react";

type AnchorPropsWith<Props> = Props & Omit<ComponentPropsWithRef<"a">, keyof Props>;

/** A link to a page, with typed route parameters. */
export const PageLink = createLink((props: AnchorPropsWith<AnchorProps>) =>
  createElement(Anchor<"a">, props),
);

/** A button that links to a page. */
export const ButtonLink = createLink((props: AnchorPropsWith<ButtonProps>) =>
  createElement(Button<"a">, { component: "a", ...props }),
);
