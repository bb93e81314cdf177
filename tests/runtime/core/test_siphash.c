/* SipHash-2-4: vectors of its reference implementation. */
#include "check.h"
#include "core/siphash.h"

int main(void)
{
    uint8_t key[16], bytes[56];
    for (unsigned i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;

    CASE("whole words: 0, 8, 16 and 56 bytes");
    CHECK(sl_siphash(key, bytes, 0) == UINT64_C(0x726fdb47dd0e0e31));
    CHECK(sl_siphash(key, bytes, 8) == UINT64_C(0x93f5f5799a932462));
    CHECK(sl_siphash(key, bytes, 16) == UINT64_C(0x3f2acc7f57c29bdb));
    CHECK(sl_siphash(key, bytes, 56) == UINT64_C(0xb78dbfaf3a8d83bd));

    CASE("a last word of 7 bytes (appendix A of the paper)");
    CHECK(sl_siphash(key, bytes, 15) == UINT64_C(0xa129ca6149be45e5));
    return 0;
}
