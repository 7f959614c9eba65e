import { Alert, Code, Group, Text } from "@mantine/core";
import { IconKey } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Copy } from "./Copy";

/** A password or token that is shown only once. */
export function Secret({ value, what, children }: { value: string; what: string; children?: ReactNode }) {
  return (
    <Alert
      color="yellow"
      variant="light"
      icon={<IconKey aria-hidden />}
      title={`The ${what} is shown only now`}
    >
      <Group gap="xs" wrap="nowrap">
        <Code data-testid="secret" style={{ overflowWrap: "anywhere", fontSize: "0.875rem" }}>
          {value}
        </Code>
        <Copy value={value} what={what} />
      </Group>
      {children !== undefined && (
        <Text component="div" size="sm" mt="xs">
          {children}
        </Text>
      )}
    </Alert>
  );
}
