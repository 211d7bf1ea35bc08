// Labels: texts that read as numbers, and labels that no class has.
#include "shared/data/values/label_texts.h"

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

TEST_CASE("the texts of a label read as 1 and 0, or as the numbers of their classes", "[data]") {
  CHECK(LabelTexts::of({.name = "y"}) == nullptr);
  const auto positive = LabelTexts::of({.name = "y", .positive = {"yes", "YES"}});
  CHECK(positive->number_of("YES") == 1.0F);
  CHECK(positive->number_of("Yes") == 0.0F);
  const auto classes = LabelTexts::of({.name = "y", .classes = {"b", "a"}});
  CHECK(classes->number_of("b") == 0.0F);
  CHECK(classes->number_of("a") == 1.0F);
  CHECK_FALSE(classes->number_of("a.").has_value());
  const auto counter = std::make_shared<TextCounter>(2);
  const auto counting = LabelTexts::counting(counter);
  for (const char* text : {"b", "a", "b"}) CHECK(counting->number_of(text) == 0.0F);
  CHECK(counter->texts() == std::map<std::string, uint64_t, std::less<>>{{"a", 1}, {"b", 2}});
  CHECK_FALSE(counter->overflowed());
  counting->number_of("c");
  CHECK(counter->overflowed());
  CHECK(counter->texts().size() == 2);
}

}  // namespace
}  // namespace downpour::data
