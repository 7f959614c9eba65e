import { PageTitle } from "../../components/PageTitle";

export function SourcePage() {
  return <PageTitle title="SourcePage" />;
}
