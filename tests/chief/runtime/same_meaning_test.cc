// Same meaning: which changes of a job give the rows and columns of its variables another meaning.
#include "chief/runtime/same_meaning.h"

#include "shared/data/values/vocabulary.h"
#include "tests/chief/runtime/support.h"

namespace downpour::chief {
namespace {

const std::string kColumns = "columns = [\"a\", \"b\", \"color\", \"y\"]";

/// Returns a job with these words or this file as the vocabulary of `color`.
Job job_of(const ScratchDir& dir, const std::string& vocabulary, const std::string& model,
           const std::string& target = "type = \"string\", classes = [\"no\", \"yes\"]") {
  dir.write("d.csv", "a,b,color,y\n1,2,red,no\n3,4,blue,yes\n");
  const RunPlan plan = plan_of(
      dir, str("partitions = 2\nrun_dir = \"run\"\n[data]\nsource = \"d.csv\"\nformat = \"csv\"\n",
               kColumns, "\nheader = true\nfields.a = { type = \"float32\" }\n",
               "fields.b = { type = \"float32\" }\n",
               "fields.color = { type = \"string\", transform = [{ op = \"vocabulary\", ",
               vocabulary, ", unknown = \"hash\", buckets = 4 }] }\n", "fields.y = { ", target,
               " }\n[model]\n", model, "target = \"y\"\n"));
  return plan.job;
}

const std::string kPreset = "preset = \"logistic_regression\"\n";
const std::string kWords = "words = [\"red\", \"green\", \"blue\"]";

void check_refused(const Result<void>& checked, const std::string& what, const std::string& hint) {
  REQUIRE_FALSE(checked);
  CHECK(checked.error().id == "DP-2110");
  INFO(checked.error().what << " / " << checked.error().hint);
  CHECK(checked.error().what.find(what) != std::string::npos);
  CHECK(checked.error().hint.find(hint) != std::string::npos);
}

TEST_CASE("words of a vocabulary keep their line numbers, and new words follow them", "[chief]") {
  const ScratchDir dir;
  const Job was = job_of(dir, kWords, kPreset);
  CHECK(check_vocabularies(was, was));
  CHECK(check_vocabularies(
      was, job_of(dir, "words = [\"red\", \"green\", \"blue\", \"black\"]", kPreset)));
  check_refused(
      check_vocabularies(was, job_of(dir, "words = [\"red\", \"blue\", \"green\"]", kPreset)),
      "the vocabulary of `color` has changed: word 2 was \"green\" and is \"blue\" now",
      "add new words only at the end");
  check_refused(check_meaning(was, job_of(dir, "words = [\"red\", \"green\"]", kPreset)),
                "it had 3 words and has 2 now", "restore the words");
}

TEST_CASE("a file of words is compared by its first lines", "[chief]") {
  const ScratchDir dir;
  dir.write("words.txt", "red\ngreen\nblue\n");
  const std::string file = "file = \"words.txt\"";
  const Job was = job_of(dir, file, kPreset);
  CHECK(check_vocabularies(job_of(dir, kWords, kPreset), was));  // the same words, listed
  dir.write("words.txt", "red\ngreen\nblue\nblack\n");
  CHECK(check_vocabularies(was, job_of(dir, file, kPreset)));
  dir.write("words.txt", "blue\nred\ngreen\nblack\n");
  const auto refused = check_vocabularies(was, job_of(dir, file, kPreset));
  check_refused(refused, "its first 3 words are not those of before", "restore the file");
  CHECK(refused.error().where == dir / "words.txt");
}

TEST_CASE("classes in another order are refused, but may be missing in one of the jobs",
          "[chief]") {
  const ScratchDir dir;
  const Job was = job_of(dir, kWords, kPreset);
  check_refused(
      check_meaning(was,
                    job_of(dir, kWords, kPreset, "type = \"string\", classes = [\"yes\", \"no\"]")),
      "`data.fields.y.classes` is [\"no\", \"yes\"] in the other run, but [\"yes\", \"no\"]",
      "value of the other run");
  const Job positive = job_of(dir, kWords, kPreset, "type = \"string\", positive = [\"yes\"]");
  CHECK(check_meaning(was, positive));
  check_refused(check_meaning(positive, job_of(dir, kWords, kPreset,
                                               "type = \"string\", positive = [\"no\"]")),
                "`data.fields.y.positive` is", "value of the other run");
}

TEST_CASE("labels that one job reads in reverse are refused, whatever lists they have", "[chief]") {
  const ScratchDir dir;
  const auto job = [&](const std::string& list) {
    return job_of(dir, kWords, kPreset, "type = \"string\", " + list);
  };
  const Job numbers = job_of(dir, kWords, kPreset, "type = \"float32\"");
  for (const char* same : {"positive = [\"1\"]", "positive = [\"2\"]", "classes = [\"0\", \"1\"]",
                           "classes = [\"-1\", \"1\"]", "classes = [\"1\", \"2\"]",
                           "classes = [\"no\", \"yes\"]", "positive = [\"no\"]"}) {
    CAPTURE(same);
    CHECK(check_meaning(numbers, job(same)));
    CHECK(check_meaning(job(same), numbers));
  }
  for (const char* reversed : {"positive = [\"0\"]", "positive = [\"-1\"]",
                               "classes = [\"1\", \"0\"]", "classes = [\"2\", \"1\"]"}) {
    CAPTURE(reversed);
    check_refused(check_meaning(numbers, job(reversed)), "but read by", "value of the other run");
    check_refused(check_meaning(job(reversed), numbers), "but a number", "value of the other run");
  }
  check_refused(check_meaning(job("classes = [\"no\", \"yes\"]"), job("positive = [\"no\"]")),
                "the label `y` is read by classes = [no, yes] in the other run, but read by "
                "positive = [no] in this job",
                "value of the other run");
}

TEST_CASE("the order of inputs matters for numbers, and not for rows of a sum", "[chief]") {
  const ScratchDir dir;
  const Job was = job_of(dir, kWords, kPreset + "inputs = [\"a\", \"color\", \"b\"]\n");
  CHECK(check_meaning(was, job_of(dir, kWords, kPreset + "inputs = [\"color\", \"a\", \"b\"]\n")));
  check_refused(
      check_meaning(was, job_of(dir, kWords, kPreset + "inputs = [\"b\", \"color\", \"a\"]\n")),
      "`inputs` of layer `linear` is [a, b] in the other run, but [b, a] in this job",
      "`model.inputs`");
}

}  // namespace
}  // namespace downpour::chief
