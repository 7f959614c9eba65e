import { PageTitle } from "../../components/PageTitle";

export function SearchPage() {
  return <PageTitle title="SearchPage" />;
}
