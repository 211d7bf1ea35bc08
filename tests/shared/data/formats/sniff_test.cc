// sniff: the detected format, fields and target of files, and that the proposal can be read.
#include "shared/data/formats/sniff.h"

#include <map>

#include "shared/data/values/label_texts.h"
#include "tests/shared/data/formats/found_field.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;

TEST_CASE("names and labels that are not UTF-8 are an error", "[data]") {
  const ScratchDir dir;
  const std::string latin1 =
      "gr\xf6\xdf"
      "e,label\n1,0\n2,1\n3,0\n";
  const Error error = sniff(dir.write("f.csv", latin1)).error();
  CHECK(error.code == ErrorCode::kBadData);
  CHECK_THAT(error.what, Contains("is not UTF-8") && Contains("f.csv"));
  CHECK_THAT(error.hint, Contains("iconv"));
  // The same for the texts of a label.
  CHECK_THAT(sniff(dir.write("f.csv", "\xef,\xdd")).error().what, Contains("is not UTF-8"));
  CHECK(sniff(dir.write("g.csv",
                        "gr\xc3\xb6\xc3\x9f"
                        "e,label\n1,0\n2,1\n3,0\n")));
}

TEST_CASE("sniff: detects libsvm by its pairs, and the classes by the labels", "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("a9a", "-1 3:1 11:1 14:1 \n+1 5:1 7:1\n-1 3:1\n");
  const FileFacts sniffed = sniff(path).value();
  CHECK(sniffed.format == DataFormat::kLibsvm);
  CHECK(sniffed.classes == 2);
  CHECK(sniffed.target == "label");
  CHECK_THAT(sniffed.reason, Contains("5 features") && Contains("-1, 1"));
  CHECK(sniffed.pairs_per_record == Approx(4.0 / 3));
  CHECK(sniffed.largest_value == 1);
  const FileFacts scaled = sniff(dir.write("s", "0 1:2 2:-3 3:0.5\n")).value();
  CHECK(scaled.pairs_per_record == Approx(36 + 1 + 2.25));
  CHECK(scaled.largest_value == 3);
  CHECK(records_as_proposed(path, sniffed) == 3);
  std::string digits;
  for (int i = 0; i < 100; ++i) digits += str(i % 10, " 1:0.5\n");
  CHECK(sniff(dir.write("d", digits)).value().classes == 10);
  CHECK(sniff(dir.write("r", "0.5 1:1\n2.25 1:1\n")).value().classes == 0);
}

TEST_CASE("sniff: detects padded CSV without header, ? for missing values, and text labels",
          "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("adult.data",
                                     "39, State-gov, 77516, Bachelors, 2174, <=50K\n"
                                     "50, ?, 83311, Bachelors, 0, <=50K\n"
                                     "38, Private, 215646, HS-grad, 0, >50K\n");
  const FileFacts sniffed = sniff(path).value();
  CHECK(sniffed.format == DataFormat::kCsv);
  CHECK_FALSE(sniffed.header);
  CHECK(sniffed.trim);
  CHECK(sniffed.missing == std::vector<std::string>{"?"});
  CHECK(sniffed.columns.size() == 6);
  CHECK(sniffed.target == "label");
  CHECK(sniffed.classes == 2);
  CHECK(field_of(sniffed, "label").classes == std::vector<std::string>{"<=50K", ">50K"});
  CHECK(field_of(sniffed, "c1").type == FieldType::kFloat32);
  CHECK(field_of(sniffed, "c2").type == FieldType::kString);
  CHECK(records_as_proposed(path, sniffed) == 3);
}

TEST_CASE("sniff: the header gives the names of the columns and the target", "[data]") {
  const ScratchDir dir;
  const std::string path =
      dir.write("f", "id;Click;price;note\n1;0;2.5;\"a;b\"\n2;1;NA;c\n3;0;7;c\n");
  const FileFacts sniffed = sniff(path).value();
  CHECK(sniffed.header);
  CHECK(sniffed.delimiter == ";");
  CHECK(sniffed.columns == std::vector<std::string>{"id", "Click", "price", "note"});
  CHECK(sniffed.target == "Click");
  CHECK(sniffed.classes == 2);
  CHECK(sniffed.missing == std::vector<std::string>{"NA"});
  CHECK(records_as_proposed(path, sniffed) == 3);
}

TEST_CASE("sniff: of several names that targets have, the most usual one is the target", "[data]") {
  const ScratchDir dir;
  CHECK(sniff(dir.write("f.csv", "x,y,label\n0.5,1.5,0\n1,4,1\n2,3,0\n")).value().target ==
        "label");
  CHECK(sniff(dir.write("j.jsonl", R"({"class": 2, "label": 1, "y": 3})"
                                   "\n"))
            .value()
            .target == "label");
}

TEST_CASE("sniff: None is a class of a target of texts, and missing elsewhere", "[data]") {
  const ScratchDir dir;
  const auto facts_of = [&](const char* other) {
    std::string text = "hours,pet,disorder\n";
    for (int i = 0; i < 60; ++i)
      text += str(i % 7, i % 5 == 0 ? str(",", other) : std::string(",cat"),
                  i % 3 == 0   ? ",Apnea\n"
                  : i % 3 == 1 ? ",None\n"
                               : ",Insomnia\n");
    return sniff(dir.write("f.csv", text)).value();
  };
  const FileFacts facts = facts_of("NA");
  CHECK(facts.classes == 3);
  CHECK(field_of(facts, "disorder").classes ==
        std::vector<std::string>{"Apnea", "Insomnia", "None"});
  CHECK(facts.missing == std::vector<std::string>{"NA"});
  CHECK(facts.filter.empty());
  CHECK(facts_of("None").classes == 3);
}

TEST_CASE("sniff: two integers are the labels of two classes", "[data]") {
  const ScratchDir dir;
  const auto facts_of = [&](const std::string& name, int low, int high) {
    std::string text = "x," + name + "\n";
    for (int i = 0; i < 100; ++i) text += str(i % 9, ",", i % 3 == 0 ? low : high, "\n");
    return sniff(dir.write("f.csv", text)).value();
  };
  const FileFacts facts = facts_of("approved", 9, 10);
  CHECK(facts.classes == 2);
  CHECK(field_of(facts, "approved").classes == std::vector<std::string>{"9", "10"});
  CHECK_THAT(facts.reason, Contains("1 means \"10\""));
  CHECK(facts_of("approved", 0, 1).classes == 2);
  CHECK(field_of(facts_of("approved", 0, 1), "approved").classes.empty());
  CHECK(facts_of("stars", 1, 2).classes == 0);  // a number, by its name
}

TEST_CASE("the positive class of two labels is yes or the larger number", "[data]") {
  CHECK(second_is_positive("No", "Yes") == true);
  CHECK(second_is_positive("TRUE", "FALSE") == false);
  CHECK(second_is_positive("9", "10.5") == true);
  CHECK(second_is_positive("2", "-1") == false);
  for (const char* other : {"yes", "1x", "", "fox"})
    CHECK_FALSE(second_is_positive("owl", other).has_value());
  const ScratchDir dir;
  std::string text = "x,churned\n";
  for (int i = 0; i < 100; ++i) text += str(i % 9, i % 4 == 0 ? ",No\n" : ",Yes\n");
  const FileFacts facts = sniff(dir.write("f.csv", text)).value();
  CHECK(field_of(facts, "churned").classes == std::vector<std::string>{"No", "Yes"});
}

TEST_CASE("sniff: a first column of 0 and 1 is the target, but not a constant", "[data]") {
  const ScratchDir dir;
  const auto target_of = [&](const std::string& header, const auto& row) {
    std::string text = header;
    for (int i = 0; i < 200; ++i) text += row(i) + "\n";
    return sniff(dir.write("f.csv", text)).value().target;
  };
  const auto flag_first = [](int i) { return str(i % 2, ",", i % 7, ",", i % 3); };
  const auto constant_first = [](int i) { return str("0,", i % 7, ",", i % 3); };
  CHECK(target_of("bought,age,visits\n", flag_first) == "bought");
  CHECK(target_of("member,age,price_class\n", flag_first) == "price_class");
  CHECK(target_of("v0,v1,digit\n", constant_first) == "digit");
  CHECK(target_of("made,shot_x,shot_y\n", flag_first) == "made");
  // The sample of a file of clicks without a header may have one of the values only.
  CHECK(target_of("", constant_first) == "label");
  CHECK_THAT(sniff(dir / "f.csv").value().reason, Contains("the first column, 0 or 1"));
}

TEST_CASE("sniff: targets and weights that a job names are declared without transforms", "[data]") {
  const ScratchDir dir;
  std::string table = "x,kind,w,label\n", lines;
  for (int i = 0; i < 100; ++i) {
    table += str(i, ",", i % 10, ",", i, ".5,", i % 2, "\n");
    lines +=
        str("{\"x\": ", i, ", \"kind\": ", i % 10, ", \"w\": ", i, ".5, \"label\": ", i % 2, "}\n");
  }
  const Roles roles{.targets = {{"kind", ""}, {"absent", ""}}, .weights = {"w"}};
  for (const std::string& path : {dir.write("f.csv", table), dir.write("f.jsonl", lines)}) {
    CAPTURE(path);
    const FileFacts facts = sniff(path, {}, roles).value();
    CHECK(facts.target == "kind");
    CHECK(facts.classes == 10);
    CHECK_THAT(facts.reason, Contains("target \"kind\" (by the job; 10 classes)"));
    std::map<std::string, size_t> transforms;
    for (const FieldSpec& field : facts.fields) transforms[field.name] = field.transform.size();
    CHECK(transforms["x"] == 1);
    CHECK(transforms["label"] == 1);  // an input now
    CHECK(transforms.contains("kind"));
    CHECK(transforms["kind"] == 0);
    CHECK_FALSE(transforms.contains("kind_id"));
    CHECK(transforms.contains("w"));
    CHECK(transforms["w"] == 0);
    CHECK(sniff(path, {}, {.targets = {{"absent", ""}}}).value().target == "label");
    const auto type_with = [&](const char* loss) {
      const auto fields = sniff(path, {}, {.targets = {{"kind", loss}}}).value().fields;
      return std::ranges::find(fields, "kind", &FieldSpec::name)->type;
    };
    CHECK(type_with("softmax_cross_entropy") == FieldType::kInt64);
    CHECK(type_with("squared") == FieldType::kFloat32);
  }
}

TEST_CASE("sniff: a target or weight of a job that one record lacks has no default", "[data]") {
  const ScratchDir dir;
  std::string lines = "{\"x\": 1, \"price\": null, \"w\": null, \"label\": 1}\n";
  for (int i = 0; i < 100; ++i)
    lines +=
        str("{\"x\": ", i, ", \"price\": ", i, ".5, \"w\": ", i, ".5, \"label\": ", i % 2, "}\n");
  const FileFacts facts =
      sniff(dir.write("f.jsonl", lines), {}, {.targets = {{"price", "squared"}}, .weights = {"w"}})
          .value();
  CHECK(facts.target == "price");
  for (const char* name : {"price", "w"}) {
    CAPTURE(name);
    const FieldSpec& field = field_of(facts, name);
    CHECK(field.transform.empty());
    CHECK_FALSE(field.fallback.has_value());
  }
  CHECK(field_of(facts, "x").transform.size() == 1);
}

TEST_CASE("sniff: texts are classes, or with a logistic loss one class against all others",
          "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("f.csv", "x,y\n1,a\n2,b\n3,c\n4,a\n");
  const auto label = [&](const char* loss) {
    return field_of(sniff(path, {}, {.targets = {{"y", loss}}}).value(), "y");
  };
  CHECK(label("logistic").positive == std::vector<std::string>{"a"});
  CHECK_FALSE(label("squared").is_label());
  CHECK(label("softmax_cross_entropy").classes == std::vector<std::string>{"a", "b", "c"});
  CHECK_FALSE(label("").is_label());  // too few records for three classes
  std::string lines = "x,y\n";
  for (int i = 0; i < 30; ++i)
    lines += str(i, ",", i % 5 == 0 ? "c" : i % 2 == 0 ? "a" : "b", "\n");
  const FileFacts three = sniff(dir.write("g.csv", lines)).value();
  CHECK(three.classes == 3);
  CHECK(field_of(three, "y").classes == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("sniff: columns that a job declares have its names", "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("f.csv", "0,1.5,a\n1,2.5,b\n0,3.5,a\n");
  DataSpec declared;
  declared.columns = {"flag", "x", "y"};
  const FileFacts facts = sniff(path, declared).value();
  CHECK(facts.columns == declared.columns);
  CHECK_FALSE(facts.header);
  CHECK(facts.target == "y");  // by its name
  CHECK(sniff(path, declared, {.targets = {{"flag", ""}}}).value().target == "flag");
  declared.columns.pop_back();
  CHECK_THAT(sniff(path, declared).error().what, Contains("has 2 names, but the lines have 3"));
  declared.columns = {"flag", "x", "y"};
  const Error header = sniff(dir.write("h.csv", "f,x,y\n1,1.5,a\n0,2.5,b\n"), declared).error();
  CHECK_THAT(header.what, Contains("looks like a header"));
  CHECK_THAT(header.hint, Contains("data.header = true"));
  // A first record with a text where numbers follow is one, if it also has a number or if the text
  // is declared.
  const std::string odd = dir.write("o.csv", "none,1.5,a\n1,2.5,b\n0,3.5,a\n");
  CHECK_FALSE(sniff(odd, declared).value().header);
  const std::string text = dir.write("u.csv", "none,b,a\n1,b,b\n0,c,a\n");
  CHECK_THAT(sniff(text, declared).error().hint, Contains("data.missing"));
  declared.missing = {"none"};
  CHECK_FALSE(sniff(text, declared).value().header);
}

TEST_CASE("sniff: a header may lack a name, but not repeat one", "[data]") {
  const ScratchDir dir;
  // As pandas writes an index.
  const std::string index = dir.write("i.csv", ",x,label\n0,1,0\n1,4,1\n2,3,0\n");
  const FileFacts sniffed = sniff(index).value();
  CHECK(sniffed.header);
  CHECK(sniffed.columns == std::vector<std::string>{"c1", "x", "label"});
  CHECK(records_as_proposed(index, sniffed) == 3);
  const Error error = sniff(dir.write("t.csv", "x,label,x\n0,1,0\n1,4,1\n")).error();
  CHECK_THAT(error.what, Contains("has the column `x` twice"));
  CHECK_THAT(error.where, Contains("t.csv"));
  // A first record with one odd value is not a header.
  CHECK_FALSE(sniff(dir.write("n.csv", "oops,0,0\n0,1,0\n1,4,1\n")).value().header);
}

TEST_CASE("sniff: blank lines before a header are skipped", "[data]") {
  const ScratchDir dir;
  for (const std::string blank : {"\n", "\r\n\r\n"}) {
    const std::string path = dir.write("b.csv", blank + "label,id,c\n0,1,4.5\n1,2,3.5\n0,3,1\n");
    const FileFacts facts = sniff(path).value();
    CHECK(facts.header);
    CHECK(facts.skip_lines == std::ranges::count(blank, '\n'));
    CHECK(facts.columns == std::vector<std::string>{"label", "id", "c"});
    CHECK(records_as_proposed(path, facts) == 3);
  }
}

TEST_CASE("sniff: header, skipped lines and delimiter of the job are used", "[data]") {
  const ScratchDir dir;
  const std::string texts = dir.write("t.csv", "# made by hand\ncolor;label\nred;no\nblue;yes\n");
  const FileFacts facts = sniff(texts, {.header = true, .skip_lines = 1, .delimiter = ";"}).value();
  CHECK(facts.header);
  CHECK(facts.columns == std::vector<std::string>{"color", "label"});
}

TEST_CASE("sniff: line breaks in quotes are detected, but an open quote is a bad line", "[data]") {
  const ScratchDir dir;
  const auto facts_of = [&](int every) {
    std::string text = "x,review,label\n";
    for (int i = 0; i < 200; ++i) {
      const bool has_break = i % every == 0;
      text += str(i * 0.37, has_break ? ",\"good, really\ngood " : ",\"good, really good ", i,
                  "\",", i % 2, "\n");
    }
    return sniff(dir.write("f.csv", text)).value();
  };
  for (const int every : {1, 2, 40}) {
    CAPTURE(every);
    const FileFacts facts = facts_of(every);
    CHECK(facts.quoted_newlines);
    CHECK(facts.header);
    CHECK(facts.columns == std::vector<std::string>{"x", "review", "label"});
    CHECK(facts.target == "label");
    CHECK_THAT(facts.reason, Contains("with header, line breaks in quotes: "));
    CHECK(records_as_proposed(dir.path() + "/f.csv", facts) == 200);
  }
  std::string plain = "x,review,label\n";
  for (int i = 0; i < 200; ++i) plain += str(i * 0.37, ",\"good, really\",", i % 2, "\n");
  const std::string open = plain + "0.5,\"never closed,1\n" + plain.substr(15);
  CHECK_FALSE(sniff(dir.write("p.csv", plain)).value().quoted_newlines);
  CHECK_FALSE(sniff(dir.write("o.csv", open)).value().quoted_newlines);
  CHECK(sniff(dir.write("p.csv", plain), {.quoted_newlines = true}).value().quoted_newlines);
}

TEST_CASE("sniff: numbers become quantiles, and integers with few values also ids", "[data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += str(i % 10, ",", i, ",", i % 2, ",", (i % 10) / 4.0, ",", i * 0.37, "\n");
  const FileFacts sniffed = sniff(dir.write("f", text)).value();
  CHECK(sniffed.classes == 0);
  for (const char* name : {"c1", "c2", "c3", "c4"}) {
    CAPTURE(name);
    CHECK(field_of(sniffed, name).transform == std::vector<TransformSpec>{ops::Quantile{}});
    const auto ids = std::ranges::find(sniffed.fields, std::string(name) + "_id", &FieldSpec::name);
    CHECK((ids != sniffed.fields.end()) == (std::string(name) == "c1"));
  }
  CHECK(field_of(sniffed, "c1").fallback == "5");  // the median of 0, 1, ... 9
  CHECK(field_of(sniffed, "c1_id").column == "c1");
  CHECK(field_of(sniffed, "c1_id").transform ==
        std::vector<TransformSpec>{ops::Hash{.integers = true}});
}

TEST_CASE("sniff: a column of numbers that lacks values has a field that says where", "[data]") {
  const ScratchDir dir;
  std::string text = "age,user_id,height,city,weight,weight_missing,label\n";
  for (int i = 0; i < 300; ++i) {
    text += str(i % 3 == 0 ? "" : str(20.5 + i), ",", i % 5 == 0 ? "" : str(i % 50), ",",
                i % 7 == 0 ? "?" : str(1.5 + i % 50), ",", i % 4 == 0 ? "" : str("c", i % 9), ",",
                i % 2 == 0 ? "" : str(50.25 + i), ",", i % 3, ",", i % 2, "\n");
  }
  const std::string path = dir.write("f.csv", text);
  const FileFacts facts = sniff(path).value();
  CHECK(facts.missing == std::vector<std::string>{"?"});
  std::vector<std::string> names;
  for (const FieldSpec& field : facts.fields)
    if (field.name.ends_with("_missing")) names.push_back(field.name);
  // `weight_missing` is a column. Ids and texts have the empty text in place of a missing one.
  CHECK(names == std::vector<std::string>{"age_missing", "height_missing", "weight_missing"});
  CHECK(field_of(facts, "weight_missing").positive.empty());
  CHECK(field_of(facts, "age_missing").column == "age");
  CHECK(records_as_proposed(path, facts) == 300);

  auto plan = plan_of(path, facts.format);
  plan->data.columns = facts.columns;
  plan->data.header = facts.header;
  plan->data.missing = facts.missing;
  plan->data.fields = facts.fields;
  plan->layout.floats = {{"age_missing", 1}, {"height_missing", 1}};
  auto reader = open_shard(plan, Split::kAll, {}, {0, 0, plan->files[0].bytes}, 0);
  REQUIRE(reader);
  Batch batch;
  int record = 0;
  while ((*reader)->next(batch).value()) {
    for (uint32_t r = 0; r < batch.records; ++r, ++record) {
      REQUIRE(batch.floats[0].values[r] == (record % 3 == 0 ? 1.0F : 0.0F));
      REQUIRE(batch.floats[1].values[r] == (record % 7 == 0 ? 1.0F : 0.0F));
    }
  }
  CHECK(record == 300);
}

TEST_CASE("sniff: ids are no numbers, and times and row numbers are neither target nor field",
          "[data]") {
  const ScratchDir dir;
  const auto facts_of = [&](const std::string& header, const auto& row) {
    std::string text = header + "\n";
    for (int i = 0; i < 200; ++i) text += row(i) + "\n";
    return sniff(dir.write("f.csv", text)).value();
  };
  const auto has = [](const FileFacts& facts, const std::string& name) {
    return std::ranges::count(facts.fields, name, &FieldSpec::name) > 0;
  };
  // As MovieLens writes ratings.
  const FileFacts ratings = facts_of("userId,movieId,rating,timestamp", [](int i) {
    return str(1 + i % 31, ",", 10 + i % 17, ",", 1 + i % 5, ",", 964982703 + 60 * i);
  });
  CHECK(ratings.target == "rating");
  CHECK(ratings.classes == 0);  // a number, although it has few values
  CHECK_FALSE(has(ratings, "timestamp"));
  for (const char* name : {"userId", "movieId"}) {
    CHECK(field_of(ratings, name).type == FieldType::kString);
    CHECK(field_of(ratings, name).transform ==
          std::vector<TransformSpec>{ops::Hash{.integers = true}});
    CHECK_FALSE(has(ratings, std::string(name) + "_id"));
  }
  CHECK_THAT(ratings.reason, Contains("left out: timestamp (a time)"));
  // Seconds of Unix time without a name, and hashes whose name does not say so.
  const FileFacts unnamed = facts_of("1,10,5,964982703", [](int i) {
    return str(1 + i % 31, ",", 10 + i % 17, ",", 1 + i % 5, ",", 964982703 + 60 * i);
  });
  CHECK(unnamed.fields.size() == 5);  // two as numbers and as ids, and the label
  CHECK_THAT(unnamed.reason, Contains("the last column that is no id and no time"));
  const FileFacts hashed = facts_of("visitor,price,sold", [](int i) {
    return str(9300000000000000000U + uint64_t(i % 31), ",", i * 0.37, ",", i % 2);
  });
  CHECK(field_of(hashed, "visitor").type == FieldType::kString);
  const FileFacts amounts =
      facts_of("wei,sold", [](int i) { return str(1 + i % 31, ".5e18,", i % 2); });
  CHECK(field_of(amounts, "wei").type == FieldType::kFloat32);
  // An index, a key and a date.
  const FileFacts sales = facts_of(",order_id,note,title,date,zip,amount", [](int i) {
    return str(i, ",", 5000 - i, ",n", i, ",a thing ", i, ",2026-0", 1 + i % 9, "-01,",
               10115 + i % 20, ",", i * 0.37);
  });
  CHECK(sales.target == "amount");
  for (const char* name : {"c1", "order_id", "note", "date"}) CHECK_FALSE(has(sales, name));
  CHECK(field_of(sales, "title").is_bag());  // several words
  CHECK(field_of(sales, "zip").type == FieldType::kString);
  // An index that pandas has read from a file and written again, and the row names of R.
  const FileFacts frame = facts_of(",Unnamed: 0,rownames,x,amount", [](int i) {
    return str(i, ",", i, ",", i + 1, ",", i % 7, ",", i * 0.37);
  });
  for (const char* name : {"c1", "Unnamed: 0", "rownames"}) CHECK_FALSE(has(frame, name));
  CHECK(has(frame, "x"));
  // Many integers are classes only under a name of classes.
  const auto classes_with = [&](const char* name, int values) {
    return facts_of(std::string("x,") + name, [&](int i) { return str(i % 7, ",", i % values); })
        .classes;
  };
  CHECK(classes_with("units", 10) == 10);
  CHECK(classes_with("units", 11) == 0);
  CHECK(classes_with("class", 11) == 11);
  CHECK(classes_with("item_category", 20) == 20);
  // Members of JSON objects; a list is never left out.
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += str("{\"user_id\": ", i % 31, ", \"seen_ids\": [\"s", i,
                 "\", \"x\"], \"rating\": ", 1 + i % 5, ", \"timestamp\": ", 964982703 + i, "}\n");
  }
  const FileFacts members =
      sniff(dir.write("f.jsonl", lines), {}, {.targets = {{"rating", ""}}}).value();
  CHECK(members.classes == 0);
  CHECK_FALSE(has(members, "timestamp"));
  CHECK_THAT(members.reason, Contains("ignored: timestamp (a time)"));
  CHECK(field_of(members, "user_id").type == FieldType::kString);
  CHECK(has(members, "seen_ids"));
  // Names that fields can't have.
  const FileFacts odd = sniff(dir.write("o.jsonl",
                                        "{\"a/b\": 1.5, \"c..d\": 2.5, \"label\": 1}\n"
                                        "{\"a/b\": 2.5, \"c..d\": 3.5, \"label\": 0}\n"))
                            .value();
  CHECK(field_of(odd, "a_b").path == "a/b");
  CHECK(field_of(odd, "c__d").path == "c..d");
  // Records without a target are left out, and a member that few records have is no input either.
  const auto with_labels = [&](int every, int missing) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      const std::string label = i % every == missing ? "null" : str(i % 2);
      text += str("{\"x\": ", i * 0.37, ", \"label\": ", label, "}\n");
    }
    return sniff(dir.write("n.jsonl", text)).value();
  };
  CHECK(with_labels(200, 7).target == "label");
  CHECK(with_labels(200, 7).filter == "!missing(`label`)");
  CHECK_THAT(with_labels(200, 7).reason, Contains("left out (1 of the 200 in the sample"));
  CHECK(with_labels(200, -1).filter.empty());
  const FileFacts few = with_labels(1, 0);
  CHECK(few.target.empty());
  CHECK_FALSE(has(few, "label"));
  // A duration is no time, and a column of different numbers without such a name is a field.
  const FileFacts trips =
      facts_of("time,x,y", [](int i) { return str(i % 90, ",", i, ",", i * 2); });
  CHECK(has(trips, "time"));
  CHECK(has(trips, "x"));
  // A text that begins with a day is a time under any name, and a version or a phone number is not.
  const FileFacts visits = facts_of("opened,seen,made_at,version,phone,y", [](int i) {
    return str("2026-1-", i % 28 + 1, "T08:00,", i % 28 + 1, ".11.2026,", 1700000000 + i, ",2.1.",
               i % 5, ",555-1234-", i % 7, ",", i % 2);
  });
  for (const char* name : {"opened", "seen", "made_at"}) CHECK_FALSE(has(visits, name));
  CHECK(has(visits, "version"));
  CHECK(has(visits, "phone"));
}

TEST_CASE(
    "sniff: detects criteo by its 40 columns, text as a bag of words, images by their magic number",
    "[data]") {
  const ScratchDir dir;
  std::string line = "1";
  for (int i = 1; i <= 13; ++i) line += "\t" + std::to_string(i);
  for (int i = 1; i <= 26; ++i) line += i % 5 == 0 ? "\t" : "\t68fd1e64";
  CHECK(sniff(dir.write("c", line + "\n" + line + "\n")).value().format == DataFormat::kCriteo);
  CHECK(field_of(sniff(dir.path() + "/c").value(), "I1").transform ==
        std::vector<TransformSpec>{ops::Quantile{}});
  const FileFacts other =
      sniff(dir.path() + "/c", {}, {.targets = {{"I2", "squared"}}, .weights = {"I1"}}).value();
  CHECK(other.format == DataFormat::kCriteo);
  CHECK(other.target == "I2");
  CHECK(field_of(other, "I1").transform.empty());
  CHECK(field_of(other, "I2").transform.empty());
  CHECK(field_of(other, "I3").transform == std::vector<TransformSpec>{ops::Quantile{}});
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += str(i % 2, "\tthe rock number ", i, " is destined to be new\n");
  const FileFacts words = sniff(dir.write("t", text)).value();
  CHECK(words.format == DataFormat::kTsv);
  CHECK(words.target == "label");
  CHECK(words.classes == 2);
  CHECK(field_of(words, "c2").is_bag());
  std::string objects;
  for (int i = 0; i < 40; ++i)
    objects += str("{\"y\": ", i % 2, ", \"t\": \"the rock number ", i, " is to be new\"}\n");
  CHECK(field_of(sniff(dir.write("t.jsonl", objects)).value(), "t").is_bag());
  const std::string images("\0\0\x08\x03\0\0\0\x01\0\0\0\x1c\0\0\0\x1c", 16);
  CHECK(sniff(dir.write("x-images-idx3-ubyte.gz", gzipped(images))).value().format ==
        DataFormat::kMnist);
}

TEST_CASE("sniff: the error for a file that cannot be detected says why", "[data]") {
  const ScratchDir dir;
  CHECK_THAT(sniff(dir.write("f", "once upon a time\nthere was\n")).error().what,
             Contains("once upon a time"));
  CHECK_THAT(sniff(dir.write("b", std::string("\x7f"
                                              "ELF\0\0\0\n",
                                              8)))
                 .error()
                 .what,
             Contains("is neither text nor a supported binary format:"));
  CHECK_THAT(sniff(dir.write("l", std::string("\0\0\x08\x01\0\0\0\0", 8))).error().what,
             Contains("labels"));
  CHECK(sniff(dir.write("e", "")).error().code == ErrorCode::kBadData);
  CHECK(sniff(dir.path() + "/nix").error().code == ErrorCode::kNoInput);
  for (const std::string begin : {"PAR1\x15\x04", "ARROW1\0\0", "\x80\x04\x95"}) {
    const std::string path = dir.write("table", begin + std::string(20, '\0'));
    CHECK_THAT(sniff(path).error().hint,
               Contains("python -m downpour convert " + path + " --out FILE.csv"));
  }
}

TEST_CASE("sniff: detects the public data sets, and all of their records can be read", "[data]") {
  const std::string dir = data_dir();
  if (dir.empty()) return;
  struct Known {
    const char* path;
    DataFormat format;
    uint32_t classes;
    uint64_t records;
  };
  for (const Known& known : {Known{"a9a/a9a", DataFormat::kLibsvm, 2, 32561},
                             {"adult/adult.data", DataFormat::kCsv, 2, 32561},
                             {"agaricus/agaricus.train", DataFormat::kLibsvm, 2, 6513},
                             {"california-housing/train.csv", DataFormat::kCsv, 0, 18576},
                             {"criteo-small/train.tsv", DataFormat::kCriteo, 2, 7200},
                             {"frappe/train.libfm", DataFormat::kLibsvm, 2, 57722},
                             {"kddcup99/corrected.gz", DataFormat::kCsv, 8, 311029},
                             {"mnist/t10k-images-idx3-ubyte.gz", DataFormat::kMnist, 10, 10000},
                             {"sentence-polarity/train.tsv", DataFormat::kTsv, 2, 9596}}) {
    INFO(known.path);
    const std::string path = dir + "/" + known.path;
    const FileFacts sniffed = sniff(path).value();
    INFO(sniffed.reason);
    CHECK(sniffed.format == known.format);
    CHECK(sniffed.classes == known.classes);
    CHECK_FALSE(sniffed.header);
    CHECK(records_as_proposed(path, sniffed) == known.records);
  }
}

}  // namespace
}  // namespace downpour::data
