import { Alert } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";
import type { ComponentProps } from "react";

const KINDS = {
  info: { color: "blue", Icon: IconInfoCircle },
  warning: { color: "yellow", Icon: IconAlertTriangle },
  error: { color: "red", Icon: IconAlertTriangle },
};

/** A notice with the colour and the icon of its kind. Long words, such as ids, wrap. */
export function Notice({ kind, ...props }: { kind: keyof typeof KINDS } & ComponentProps<typeof Alert>) {
  const { color, Icon } = KINDS[kind];
  return <Alert color={color} icon={<Icon aria-hidden />} style={{ overflowWrap: "anywhere" }} {...props} />;
}
