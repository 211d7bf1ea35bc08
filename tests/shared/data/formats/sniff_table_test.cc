// sniff of tables: headers above columns of texts, and below other lines.
#include "shared/data/formats/sniff.h"
#include "shared/data/formats/text/odd_cells.h"
#include "tests/shared/data/formats/found_field.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;

/// Detects a file of `rows` rows below `header`.
template <typename Row>
FileFacts facts_of(const std::string& header, int rows, Row&& row, const Roles& roles = {},
                   const DataSpec& declared = {}) {
  const ScratchDir dir;
  std::string text = header;
  for (int i = 0; i < rows; ++i) text += row(i) + "\n";
  return sniff(dir.write("f.csv", text), declared, roles).value();
}

std::string sentence(int i) {
  return str("the movie number ", i, " has a plot with scene ", i * 7 % 100, " in it");
}
const char* mood(int i) { return i % 3 == 0 ? "pos" : "neg"; }

TEST_CASE("sniff: a first row of texts is a header if no record is like it", "[data]") {
  const auto review_first = [](int i) { return str(sentence(i), ",", mood(i)); };
  const auto mood_first = [](int i) { return str(mood(i), ",", sentence(i)); };
  for (const char* names : {"text,sentiment", "text,label", "review,mood", "Frage,Klasse"}) {
    CAPTURE(names);
    const FileFacts facts = facts_of(str(names, "\n"), 100, review_first);
    CHECK(facts.header);
    CHECK(facts.target == std::string(names).substr(std::string(names).find(',') + 1));
    CHECK(facts.classes == 2);
    CHECK(facts.fields.size() == 2);
    CHECK_THAT(facts.reason, Contains("(if the first line is a record: --set data.header=false)"));
  }
  const FileFacts swapped = facts_of("sentiment,text\n", 100, mood_first);
  CHECK(swapped.header);
  CHECK(swapped.target == "sentiment");
  CHECK(facts_of("sentiment,text\n", 2, mood_first).header);  // usual names
  CHECK_FALSE(facts_of("", 100, mood_first).header);
  CHECK_FALSE(facts_of("", 100, review_first).header);
  CHECK(facts_of("", 100, mood_first).target == "label");  // the texts are no target
  CHECK(facts_of("", 100, mood_first).columns == std::vector<std::string>{"label", "c2"});

  const FileFacts decided =
      facts_of("text,sentiment\n", 100, review_first, {.header_decided = true});
  CHECK_FALSE(decided.header);
}

TEST_CASE("sniff: the first record of a file of categories is no header", "[data]") {
  // Each letter occurs again.
  const auto letters = [](int i) {
    return str(char('a' + i % 2), ",", char('k' + i % 3), ",", char('p' + i % 5));
  };
  CHECK_FALSE(facts_of("", 50, letters).header);
  CHECK(facts_of("class,shape,color\n", 50, letters).header);
  // The first record has a text that occurs once in each column, and so have many others.
  const auto rare = [](int i) { return i % 4 == 0 ? str("x", i, ",y", i, ",z", i) : str("a,k,p"); };
  CHECK_FALSE(facts_of("", 100, rare).header);
  // It has one in one column only.
  CHECK_FALSE(facts_of("odd,k,p\n", 50, letters).header);
  // Nothing repeats: names and answers.
  const auto pairs = [](int i) { return str("question ", i, ",answer ", i); };
  CHECK_FALSE(facts_of("", 50, pairs).header);
  // Dates, amounts, marks and repeated or empty cells are no names.
  for (const char* first :
       {"2026-11-27,red,up", "$12.50,red,up", "?,red,up", ",red,up", "red,red,up", "-,red,up"}) {
    CAPTURE(first);
    CHECK_FALSE(facts_of(str(first, "\n"), 50, letters).header);
  }
  CHECK(facts_of("shape,red,up\n", 50, letters).header);
}

TEST_CASE("sniff: a column with a name that no field can have is read by another one", "[data]") {
  const auto row = [](int i) {
    return str(i % 40, ",", i * 0.37, ",", i % 5 == 0 ? "" : str(i * 0.5), ",", i % 2);
  };
  const char* const header = "a/b,a_b,.c/d,is/up\n";
  const FileFacts facts = facts_of(header, 300, row, {.targets = {{"is/up", ""}}});
  CHECK(facts.columns == std::vector<std::string>{"a/b", "a_b", ".c/d", "is/up"});
  std::vector<std::string> fields;
  for (const FieldSpec& field : facts.fields)
    fields.push_back(field.name + "=" + field.source_name());
  CHECK(fields == std::vector<std::string>{"a_b_=a/b", "a_b_id=a/b", "a_b=a_b", "_c_d=.c/d",
                                           "_c_d_missing=.c/d", "is_up=is/up"});
  CHECK(facts.target == "is_up");
  CHECK_THAT(facts.reason, Contains("target \"is_up\"") &&
                               Contains("the column a/b is the field a_b_; the column .c/d is"));
  CHECK(facts_of(header, 300, row, {.targets = {{"is_up", ""}}}).target == "is_up");
}

TEST_CASE("sniff: records without a target are left out", "[data]") {
  for (const char* missing : {"", "NA"}) {
    CAPTURE(missing);
    for (const char* kind : {"0", "price", "yes"}) {
      const auto row = [&](int i) {
        const std::string value = kind == std::string("price") ? str(i * 0.25)
                                  : i % 2 == 0                 ? kind
                                                               : "1";
        return str(i * 0.37, ",", i % 10 == 0 ? missing : value);
      };
      const FileFacts facts = facts_of("x,is/y\n", 200, row);
      CHECK(facts.target == "is_y");
      CHECK(facts.classes == (kind == std::string("price") ? 0 : 2));
      CHECK(facts.filter == "!missing(`is_y`)");
      CHECK_THAT(facts.reason, Contains("records without a target are left out (20 of the 200"));
      CHECK(std::ranges::none_of(facts.fields, [&](const FieldSpec& field) {
        return field.name == facts.target && field.fallback.has_value();
      }));
    }
  }
  CHECK(facts_of("x,y\n", 200, [](int i) {
          return str(i % 3 == 0 ? "" : "5", ",", i % 2);
        }).filter.empty());
}

TEST_CASE("sniff: few texts in a column of numbers mean missing", "[data]") {
  const auto with = [](const char* mark, int every, const Roles& roles = {}) {
    const auto row = [&](int i) {
      return str(i % every == 0 ? mark : str(i * 0.37), ",", i % 3 == 0 ? "red" : "blue", ",",
                 i % 2);
    };
    return facts_of("a,color,y\n", 300, row, roles);
  };
  for (const char* mark : {"-", ".", "#N/A", "unknown", "none", "n/a", "not measured"}) {
    CAPTURE(mark);
    const FileFacts facts = with(mark, 3);
    CHECK(field_of(facts, "a").type == FieldType::kFloat32);
    CHECK(field_of(facts, "a_missing").positive == std::vector<std::string>{""});
    CHECK(facts.missing == std::vector<std::string>{mark});
    REQUIRE(facts.warnings.size() == 1);
    CHECK_THAT(facts.warnings[0], Contains(str("the column `a` has numbers and \"", mark, "\"")) &&
                                      Contains("100 of the 300") && Contains("data.missing=[...]"));
  }
  // Fewer than half of the cells are numbers; `red` is a category, too.
  const auto half = [](int i) { return str(i % 5 < 2 ? str(i * 0.37) : "-", ",", i % 2); };
  CHECK(field_of(facts_of("a,y\n", 300, half), "a").type == FieldType::kString);
  // The job has decided.
  CHECK(field_of(with("-", 3, {.missing_decided = true}), "a").type == FieldType::kString);
  DataSpec declared;
  declared.fields = {{.name = "a"}, {.name = "y"}};
  const auto marks = [](int i) { return str(i % 3 == 0 ? "-" : str(i * 0.37), ",", i % 2); };
  CHECK(facts_of("a,y\n", 300, marks).warnings.size() == 1);
  CHECK(facts_of("a,y\n", 300, marks, {}, declared).warnings.empty());
  // Four texts, or grades with a text.
  const auto codes = [](int i) { return str(i % 3 == 0 ? str("x", i % 4) : str(i), ",", i % 2); };
  CHECK(field_of(facts_of("a,y\n", 300, codes), "a").type == FieldType::kString);
  const auto grades = [](int i) { return str(i % 4 == 3 ? "3+" : str(i % 4), ",", i % 2); };
  CHECK(field_of(facts_of("a,y\n", 300, grades), "a").type == FieldType::kString);
  const auto stars = [](int i) { return str(i % 4 == 3 ? "-" : str(i % 4), ",", i % 2); };
  CHECK(field_of(facts_of("a,y\n", 300, stars), "a_missing").column == "a");
}

TEST_CASE("sniff: a mark of another column is no missing target", "[data]") {
  // Three classes.
  const auto three = [](int i) { return str(i * 0.37, ",", i % 3 == 0 ? "unknown" : str(i % 3)); };
  CHECK(facts_of("a,kind\n", 300, three).classes == 3);
  CHECK(facts_of("a,kind\n", 300, three).warnings.empty());
  // `none` is a class.
  const auto both = [](int i) {
    return str(i % 5 == 0 ? "none" : str(i * 0.37), ",", i % 3 == 0 ? "none" : "some");
  };
  const FileFacts facts = facts_of("a,kind\n", 300, both);
  CHECK(facts.missing.empty());
  CHECK(field_of(facts, "kind").classes == std::vector<std::string>{"some", "none"});
  // A target of numbers lacks values.
  const auto prices = [](int i) { return str(i % 7, ",", i % 10 == 0 ? "-" : str(i * 0.25)); };
  const FileFacts priced = facts_of("a,price\n", 300, prices);
  CHECK(priced.classes == 0);
  CHECK(priced.filter == "!missing(`price`)");
}

TEST_CASE("sniff: numbers in another notation are reported", "[data]") {
  for (const char* number : {"1,234.50", "$12.30", "12 %", "12%", "3,5", "1.234,5", "€ 7", "-$5.10",
                             "1'000", "2 000 000", "12 EUR", "1.000.000"})
    CHECK(is_formatted_number(number));
  for (const char* text : {"", "$", "a1", "1a", "10.0.0.1", "2026-11-27", "12:30", "1,2,3", "5/6",
                           "12,", "1..2", "555-1234", "1,23,456"})
    CHECK_FALSE(is_formatted_number(text));
  const auto row = [](int i) { return str("\"", i, ",", 100 + i, ".50\",", i % 2); };
  const FileFacts facts = facts_of("a,y\n", 300, row);
  REQUIRE(facts.warnings.size() == 1);
  CHECK_THAT(facts.warnings[0], Contains("column `a` is read as texts") &&
                                    Contains("\"0,100.50\"") && Contains("like 1234.5"));
  const auto words = [](int i) { return str(i % 3 == 0 ? "red" : "\"1,5 l\"", ",", i % 2); };
  CHECK(facts_of("a,y\n", 300, words).warnings.empty());
  // As a target they are an error.
  const ScratchDir dir;
  std::string lines = "a,price\n";
  for (int i = 0; i < 300; ++i) lines += str(i * 0.37, ",$", i % 150, ".25\n");
  const Error error = sniff(dir.write("f.csv", lines)).error();
  CHECK_THAT(error.what, Contains("target `price`") && Contains("\"$0.25\""));
  CHECK_THAT(error.hint, Contains("1234.5") && Contains("--target NAME"));
}

TEST_CASE("sniff: cells in quotes between tabs are those of csv", "[data]") {
  const ScratchDir dir;
  std::string text = "\"x\"\t\"town\"\t\"y\"\n";
  for (int i = 0; i < 30; ++i)
    text += str(i, i % 2 == 0 ? "\t\"Oslo, N\"\t" : "\t\"Rome\"\t", i % 3 == 0, "\n");
  const FileFacts facts = sniff(dir.write("f.tsv", text)).value();
  CHECK(facts.format == DataFormat::kCsv);
  CHECK(facts.delimiter == "\t");
  CHECK(facts.header);
  CHECK(facts.columns == std::vector<std::string>{"x", "town", "y"});
  CHECK(facts.target == "y");
  CHECK(facts.classes == 2);
}

TEST_CASE("sniff: lines before a header are skipped", "[data]") {
  const ScratchDir dir;
  const auto file_of = [&](const std::string& before) {
    std::string text = before + "x,mood,label\n";
    for (int i = 0; i < 200; ++i)
      text += str(i * 0.37, ",", i % 3 == 0 ? "a" : "b", ",", i % 2, "\n");
    return dir.write("f.csv", text);
  };
  for (const auto& [before, lines] : {std::pair{"", 0},
                                      {"sep=,\n", 1},
                                      {"\xef\xbb\xbfsep=,\r\n", 1},
                                      {"# of 2026\n\n# by day, each\n", 3}}) {
    CAPTURE(before);
    const std::string path = file_of(before);
    const FileFacts facts = sniff(path).value();
    CHECK(facts.header);
    CHECK(facts.skip_lines == uint32_t(lines));
    CHECK(facts.columns == std::vector<std::string>{"x", "mood", "label"});
    CHECK_THAT(facts.reason, Contains(lines == 0 ? "with header: "
                                                 : str("with header in line ", lines + 1, ": ")));
    CHECK(records_as_proposed(path, facts) == 200);
  }
  DataSpec declared;
  declared.skip_lines = 1;
  const FileFacts facts = sniff(file_of("sep=,\n"), declared).value();
  CHECK(facts.skip_lines == 1);
  CHECK_THAT(facts.reason, Contains("with header: "));
  // A first record with a cell too few is a bad record, and no line before a header.
  std::string numbers = "1,2\n";
  for (int i = 0; i < 200; ++i) numbers += str(i * 0.37, ",", i, ",", i % 2, "\n");
  CHECK(sniff(dir.write("g.csv", numbers)).value().skip_lines == 0);
}

TEST_CASE("sniff: large decimals are neither times nor integers, and large ids differ", "[data]") {
  const auto money = facts_of("revenue,profit\n", 300, [](int i) {
    return str(std::to_string(900000000.25 + i * 1234567.5), ",", i * 0.37);
  });
  CHECK_THAT(money.reason, !Contains("left out"));
  const auto ids = facts_of("order_id,x,label\n", 300,
                            [](int i) { return str(5000000000 + i, ",", i * 0.37, ",", i % 2); });
  CHECK_THAT(ids.reason, Contains("left out: order_id"));
}

TEST_CASE("sniff: a column with two dots in its name gets a field, one without values gets none",
          "[data]") {
  const FileFacts facts = facts_of("Annual.Income..k..,none,label\n", 200,
                                   [](int i) { return str(i * 0.37, ",,", i % 2); });
  CHECK(facts.fields[0].name == "Annual.Income__k__");
  CHECK(facts.fields[0].column == "Annual.Income..k..");
  CHECK_THAT(facts.reason, Contains("left out: none (no values)"));
}

TEST_CASE("sniff: numbers that 32-bit floats can't tell apart are reported", "[data]") {
  const auto facts_from = [](double first, double step) {
    return facts_of("x,label\n", 200, [&](int i) {
      return str(std::to_string(first * (i % 5 > 0) + i * step), ",", i % 2);
    });
  };
  REQUIRE(facts_from(5400000, 0.01).warnings.size() == 1);
  CHECK_THAT(facts_from(5400000, 0.01).warnings[0], Contains("the column `x` differ too little"));
  CHECK(facts_from(540, 0.01).warnings.empty());
  // A column of which all numbers are large is read with 64-bit floats.
  CHECK(facts_of("x,label\n", 200, [](int i) {
          return str(std::to_string(5400000 + i * 0.01), ",", i % 2);
        }).warnings.empty());
  const auto warnings_of_target = [](double first) {
    return facts_of("x,label\n", 200,
                    [&](int i) { return str(i % 7, ",", std::to_string(first + i * 0.01)); })
        .warnings;
  };
  REQUIRE(warnings_of_target(5400000).size() == 1);
  CHECK_THAT(warnings_of_target(5400000)[0], Contains("the target `label` differ too little"));
  CHECK(warnings_of_target(540).empty());
}

TEST_CASE("the line sep=; of a spreadsheet is no record", "[data]") {
  const ScratchDir dir;
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += str(i % 2, ";", i, "\n");
  for (const char* header : {"", "y;a\n"}) {
    const FileFacts facts = sniff(dir.write("s.csv", str("sep=;\n", header, rows))).value();
    CHECK(facts.delimiter == ";");
    CHECK(facts.skip_lines == 1);
    CHECK(facts.header == (*header != '\0'));
    CHECK(facts.target == (facts.header ? "y" : "label"));
    CHECK(facts.classes == 2);
  }
}

TEST_CASE("files with other line ends or in UTF-16 name the command that converts them", "[data]") {
  const ScratchDir dir;
  std::string rows = "y,a\r";
  for (int i = 0; i < 100; ++i) rows += str(i % 2, ",", i, "\r");
  CHECK_THAT(sniff(dir.write("cr.csv", rows)).error().hint, Contains("tr '\\r' '\\n'"));
  const auto wide = sniff(dir.write("w.csv", std::string("\xff\xfey\0,\0a\0\n\0", 10)));
  CHECK_THAT(wide.error().what, Contains("UTF-16"));
  CHECK_THAT(wide.error().hint, Contains("iconv"));
}

TEST_CASE("one bad line does not hide the format of libsvm lines", "[data]") {
  const ScratchDir dir;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += i == 1 ? "0 3:x\n" : str(i % 2, " ", i + 1, ":0.5\n");
  const FileFacts facts = sniff(dir.write("l.txt", lines)).value();
  CHECK(facts.format == DataFormat::kLibsvm);
  CHECK(facts.classes == 2);
  CHECK_FALSE(sniff(dir.write("o.txt", "1 2:0.5\n0 3:x\n0 4:y\n")));
}

}  // namespace
}  // namespace downpour::data
