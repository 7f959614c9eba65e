import { TextInput, type TextInputProps } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";

/** The search field of a list, which the key `/` focuses. */
export function SearchInput({
  label,
  onSearch,
  ...props
}: TextInputProps & { label: string; onSearch: (text: string) => void }) {
  return (
    <TextInput
      data-search-field
      aria-label={label}
      placeholder={label}
      leftSection={<IconSearch size={16} aria-hidden />}
      onChange={(event) => onSearch(event.currentTarget.value)}
      {...props}
    />
  );
}
