/* Keeps exports in a list of Valkey, in their order: the first element has all state, the others what changed. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel.h"

struct valkey {
  FILE *in, *out;
  char key[256];
  uint64_t next; /* element to read */
  uint8_t *bytes;
  size_t space;
};

struct valkey *valkey_open(const char *host, const char *port, const char *key) {
  const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  if (getaddrinfo(host, port, &wanted, &found) != 0) return NULL;
  int descriptor = -1;
  for (const struct addrinfo *one = found; one && descriptor < 0; one = one->ai_next) {
    descriptor = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    if (descriptor >= 0 && connect(descriptor, one->ai_addr, one->ai_addrlen) != 0) {
      close(descriptor);
      descriptor = -1;
    }
  }
  freeaddrinfo(found);
  struct valkey *made = descriptor >= 0 ? calloc(1, sizeof(*made)) : NULL;
  if (made) {
    snprintf(made->key, sizeof(made->key), "%s", key);
    made->in = fdopen(descriptor, "rb");
    made->out = fdopen(dup(descriptor), "wb");
    if (made->in && made->out) return made;
    valkey_close(made);
  } else if (descriptor >= 0) {
    close(descriptor);
  }
  return NULL;
}

void valkey_close(struct valkey *valkey) {
  if (valkey->in) fclose(valkey->in);
  if (valkey->out) fclose(valkey->out);
  free(valkey->bytes);
  free(valkey);
}

/* A reply that is a number, a status, or the end of a transaction: 0 unless it is an error (RESP). */
static int check(struct valkey *valkey) {
  char line[512];
  if (!fgets(line, sizeof(line), valkey->in) || line[0] == '-') return -1;
  for (long left = line[0] == '*' ? strtol(line + 1, NULL, 10) : 0; left > 0; left--)
    if (check(valkey) != 0) return -1;
  return 0;
}

static void argument(struct valkey *valkey, const void *bytes, size_t size) {
  fprintf(valkey->out, "$%zu\r\n", size);
  fwrite(bytes, 1, size, valkey->out);
  fputs("\r\n", valkey->out);
}

int valkey_write(struct valkey *valkey, const uint8_t *bytes, size_t size, int first) {
  /* a reader never sees the list without its first element */
  if (first) {
    fputs("*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n", valkey->out);
    argument(valkey, valkey->key, strlen(valkey->key));
  }
  fputs("*3\r\n$5\r\nRPUSH\r\n", valkey->out);
  argument(valkey, valkey->key, strlen(valkey->key));
  argument(valkey, bytes, size);
  if (first) fputs("*1\r\n$4\r\nEXEC\r\n", valkey->out);
  if (fflush(valkey->out) != 0) return -1;
  for (int replies = first ? 4 : 1; replies > 0; replies--)
    if (check(valkey) != 0) return -1;
  return 0;
}

int valkey_read(struct valkey *valkey, uint8_t **bytes, size_t *size) {
  char line[512], number[32];
  const int digits = snprintf(number, sizeof(number), "%llu", (unsigned long long)valkey->next++);
  fputs("*3\r\n$6\r\nLINDEX\r\n", valkey->out);
  argument(valkey, valkey->key, strlen(valkey->key));
  argument(valkey, number, (size_t)digits);
  if (fflush(valkey->out) != 0 || !fgets(line, sizeof(line), valkey->in) || line[0] != '$') return -1;
  const long long length = strtoll(line + 1, NULL, 10);
  if (length < 0) return 0; /* no such element */
  if ((size_t)length + 2 > valkey->space) {
    uint8_t *grown = realloc(valkey->bytes, (size_t)length + 2);
    if (!grown) return -1;
    valkey->bytes = grown;
    valkey->space = (size_t)length + 2;
  }
  if (fread(valkey->bytes, 1, (size_t)length + 2, valkey->in) != (size_t)length + 2) return -1;
  *bytes = valkey->bytes;
  *size = (size_t)length;
  return 1;
}
