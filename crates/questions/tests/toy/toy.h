/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An insecure toy cipher: adds the key to each block, byte by byte. */
#ifndef KILN_TOY_H
#define KILN_TOY_H

#include <kiln/cipher.h>

#define TOY_BLOCK 16

kiln_crypt_t toy_encrypt_generic, toy_decrypt_generic;
kiln_crypt_t toy_encrypt_aesni, toy_decrypt_aesni;

#endif
