// Members of a struct under their own names, said once for every walk over them.
#pragma once

// TW_FIELDS(visit, object, key, key, …) calls visit("key", object.key) for each key, in this order; up to 64 keys.
#define TW_FIELDS(visit, object, ...) TW_FIELDS_64(TW_FIELDS_NEXT(visit, object, __VA_ARGS__))
#define TW_FIELDS_NEXT(visit, object, key, ...) \
  visit(#key, (object).key);                    \
  __VA_OPT__(TW_FIELDS_AGAIN TW_FIELDS_CALL (visit, object, __VA_ARGS__))
// A macro is not expanded inside its own expansion: each pass over the text takes the next key.
#define TW_FIELDS_AGAIN() TW_FIELDS_NEXT
#define TW_FIELDS_CALL ()
#define TW_FIELDS_64(...) TW_FIELDS_16(TW_FIELDS_16(TW_FIELDS_16(TW_FIELDS_16(__VA_ARGS__))))
#define TW_FIELDS_16(...) TW_FIELDS_4(TW_FIELDS_4(TW_FIELDS_4(TW_FIELDS_4(__VA_ARGS__))))
#define TW_FIELDS_4(...) TW_FIELDS_1(TW_FIELDS_1(TW_FIELDS_1(TW_FIELDS_1(__VA_ARGS__))))
#define TW_FIELDS_1(...) __VA_ARGS__
