// Texts to tokens, tokens to ids: what counts as a word, which words a vocabulary keeps, what is held out.
#include "language_model/text.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "language_model/corpus.hpp"
#include "language_model/default_text.hpp"

namespace {

std::vector<std::string> words_of(std::string_view text) {
  lm::Tokenizer tokenizer;
  tokenizer.append(text);
  lm::Text const result = tokenizer.take();
  std::vector<std::string> words;
  for (lm::Token const token : result.tokens) words.push_back(result.words[static_cast<std::size_t>(token)]);
  return words;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("words are in lower case, punctuation stands alone, numbers are one token", "[examples][text]") {
  CHECK(words_of("In 1611, He said: LET there be!") ==
        Words{"in", "1611", ",", "he", "said", ":", "let", "there", "be", "!", "<eos>"});
}

TEST_CASE("an apostrophe within a word belongs to it, one at its end does not", "[examples][text]") {
  CHECK(words_of("don't the sons' 'tis don\u2019t") ==
        Words{"don't", "the", "sons", "'", "'", "tis", "don't", "<eos>"});
}

TEST_CASE("letters beyond ASCII are kept whole, quotes and dashes beyond ASCII stand alone", "[examples][text]") {
  CHECK(words_of("Äpfel naïve \u201cЖизнь\u201d\u2014oui\u00a0non") ==
        Words{"Äpfel", "naïve", "\u201c", "Жизнь", "\u201d", "\u2014", "oui", "non", "<eos>"});
  CHECK(words_of("\ufeff日本 한국") == Words{"日", "本", "한국", "<eos>"});
}

TEST_CASE("bytes that are no UTF-8 are spaces", "[examples][text]") {
  CHECK(words_of("a\xff"
                 "b\xc3(c\xe2\x82") == Words{"a", "b", "(", "c", "<eos>"});
}

TEST_CASE("blank lines and ends of texts end paragraphs, line ends do not", "[examples][text]") {
  CHECK(words_of("one\ntwo\n\n \n\nthree\r\n\r\nfour") ==
        Words{"one", "two", "<eos>", "three", "<eos>", "four", "<eos>"});
  CHECK(words_of("\n\n") == Words{});
}

TEST_CASE("files are read one after the other, and a missing one is named", "[examples][text]") {
  auto const path = std::filesystem::temp_directory_path() / "parallax_text_test.txt";
  std::ofstream{path} << "b a\n";
  lm::Text const text = lm::read_files({path.string(), path.string()});
  std::filesystem::remove(path);
  CHECK(text.tokens == std::vector<lm::Token>{2, 3, 0, 2, 3, 0});
  CHECK_THROWS_WITH(lm::read_files({"/no/such file"}), parallax_test::contains("/no/such file"));
}

TEST_CASE("a vocabulary goes by descending frequency, ties by first occurrence, the rest is unknown",
          "[examples][vocabulary]") {
  lm::Tokenizer tokenizer;
  tokenizer.append("c b b a d e e e\n\nc\n\nf");
  lm::Text const text = tokenizer.take();
  lm::Vocabulary const all{text, text.tokens, 100};
  std::vector<std::string> words;
  for (lm::Id id = 0; id < all.size(); ++id) words.push_back(all.word(id));
  CHECK(words == Words{"<eos>", "e", "c", "b", "a", "d", "f", "<unk>"});
  CHECK(all.count(all.unknown()) == 0);

  lm::Vocabulary const few{text, text.tokens, 5};
  CHECK(few.size() == 5);
  CHECK(few.word(few.unknown()) == "<unk>");
  CHECK(few.unknown() == 1);
  CHECK(few.count(few.unknown()) == 3);
  CHECK(few.encode(text.tokens) == std::vector<lm::Token>{3, 4, 4, 1, 1, 2, 2, 2, 0, 3, 0, 1, 0});
  CHECK_THROWS(lm::Vocabulary{text, text.tokens, 1});
}

TEST_CASE("a corpus holds out blocks from all over the text, which its vocabulary has not seen", "[examples][corpus]") {
  lm::Text text;
  for (int k = 0; k < 1000; ++k) {
    text.words.push_back(std::to_string(k));
    text.tokens.push_back(k + 2);
  }
  lm::Corpus const corpus = lm::make_corpus(text, 5000, 10, 20);
  CHECK(corpus.held_out.size() == 100);
  CHECK(corpus.train.size() == 900);
  CHECK(corpus.vocabulary.size() == 902);
  for (lm::Token const token : corpus.held_out) REQUIRE(token == corpus.vocabulary.unknown());

  lm::Corpus const short_blocks = lm::make_corpus(text, 5000, 50, 1000);  // 200 blocks of 5
  CHECK(short_blocks.held_out.size() == 20);
}

TEST_CASE("verses lose their labels and become paragraphs", "[examples][text]") {
  lm::Text const text = lm::read_verses("Ge1:1 In the beginning\n1Sm2:3 God\n");
  CHECK(text.words == Words{"<eos>", "<unk>", "in", "the", "beginning", "god"});
  CHECK(text.tokens == std::vector<lm::Token>{2, 3, 4, 0, 5, 0});
}
