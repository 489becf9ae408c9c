// RFC 3339 times, both ways.
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>

#include "caisson/contract/json.h"

namespace caisson {
namespace {

using std::chrono::duration_cast;
using std::chrono::floor;

void append_digits(std::string& to, std::int64_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  to.append(width - std::min(width, digits.size()), '0').append(digits);
}

/// Takes fixed pieces off the front of a text; once something is not as wanted, it stays failed.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  unsigned digits(std::size_t count, unsigned least, unsigned most) {
    unsigned number = 0;
    for (std::size_t i = 0; i < count; ++i) number = number * 10 + digit();
    if (number < least || number > most) failed_ = true;
    return number;
  }
  bool accept(std::string_view any_of) {
    if (text_.empty() || any_of.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(std::string_view any_of) { failed_ = !accept(any_of) || failed_; }
  /// The digits of a fraction as nanoseconds, what is finer cut off.
  std::int64_t fraction() {
    std::int64_t number = 0;
    std::size_t count = 0;
    while (!text_.empty() && text_.front() >= '0' && text_.front() <= '9') {
      const unsigned next = digit();
      if (count++ < 9) number = number * 10 + next;
    }
    if (count == 0) failed_ = true;
    for (; count < 9; ++count) number *= 10;
    return number;
  }
  bool complete() const { return !failed_ && text_.empty(); }

 private:
  unsigned digit() {
    if (text_.empty() || text_.front() < '0' || text_.front() > '9') {
      failed_ = true;
      return 0;
    }
    const auto value = static_cast<unsigned>(text_.front() - '0');
    text_.remove_prefix(1);
    return value;
  }

  std::string_view text_;
  bool failed_ = false;
};

}  // namespace

std::string format_time(UtcTime time) {
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(floor<std::chrono::microseconds>(time) - day);
  std::string text;
  append_digits(text, static_cast<int>(date.year()), 4);
  append_digits(text += '-', static_cast<unsigned>(date.month()), 2);
  append_digits(text += '-', static_cast<unsigned>(date.day()), 2);
  append_digits(text += 'T', clock.hours().count(), 2);
  append_digits(text += ':', clock.minutes().count(), 2);
  append_digits(text += ':', clock.seconds().count(), 2);
  append_digits(text += '.', clock.subseconds().count(), 6);
  return text += 'Z';
}

std::optional<UtcTime> parse_time(std::string_view text) {
  Scanner scanner(text);
  const std::chrono::year year(static_cast<int>(scanner.digits(4, 0, 9999)));
  scanner.expect("-");
  const std::chrono::month month(scanner.digits(2, 1, 12));
  scanner.expect("-");
  const std::chrono::day day(scanner.digits(2, 1, 31));
  scanner.expect("Tt ");
  const std::chrono::hours hour(scanner.digits(2, 0, 23));
  scanner.expect(":");
  const std::chrono::minutes minute(scanner.digits(2, 0, 59));
  scanner.expect(":");
  const std::chrono::seconds second(scanner.digits(2, 0, 60));
  const std::chrono::nanoseconds fraction(scanner.accept(".") ? scanner.fraction() : 0);
  std::chrono::minutes offset(0);
  if (!scanner.accept("Zz")) {
    const bool east = scanner.accept("+");
    if (!east) scanner.expect("-");
    const std::chrono::hours hours(scanner.digits(2, 0, 23));
    scanner.expect(":");
    const std::chrono::minutes minutes(scanner.digits(2, 0, 59));
    offset = east ? hours + minutes : -(hours + minutes);
  }
  const std::chrono::year_month_day date(year, month, day);
  if (!scanner.complete() || !date.ok()) return std::nullopt;
  // A leap second, which POSIX time does not count, is the second after it.
  const std::chrono::sys_seconds whole = std::chrono::sys_days(date) + hour + minute + second - offset;
  if (second == std::chrono::seconds(60) && whole != floor<std::chrono::days>(whole)) return std::nullopt;
  if (whole <= floor<std::chrono::seconds>(UtcTime::min()) ||
      whole >= floor<std::chrono::seconds>(UtcTime::max())) {
    return std::nullopt;
  }
  return whole + fraction;
}

}  // namespace caisson
