#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

uint64_t sluice_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#if HIREDIS_MAJOR >= 1
typedef size_t elements_type;
#else
typedef int elements_type;
#endif

/* The reply to WAITAOF is a pair; no other reply of ours is an array. NULL: the reader reports that it is out of memory. */
static void *short_array(const redisReadTask *task, elements_type elements) {
    const struct sluice_connection *connection = task->privdata;
    bool accepted = connection->pairs && elements == 2 && !task->parent;
    return accepted ? connection->defaults->createArray(task, elements) : NULL;
}

static void lost(struct sluice_connection *connection, const char *why) {
    snprintf(connection->why, sizeof connection->why, "%s", why);
    sluice_disconnect(connection);
}

void sluice_disconnect(struct sluice_connection *connection) {
    if (connection->fd >= 0)
        close(connection->fd);
    if (connection->reader)
        redisReaderFree(connection->reader);
    connection->fd = -1;
    connection->reader = NULL;
}

/* Connects a socket within `timeout` milliseconds. */
static bool connect_socket(struct sluice_connection *connection, int family, const struct sockaddr *address,
                           socklen_t length, uint32_t timeout) {
    connection->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->fd < 0) {
        lost(connection, strerror(errno));
        return false;
    }
    int fault = connect(connection->fd, address, length) ? errno : 0;
    if (fault == EINPROGRESS || fault == EAGAIN) {
        struct pollfd wait = {.fd = connection->fd, .events = POLLOUT};
        socklen_t size = sizeof fault;
        if (poll(&wait, 1, (int)timeout) != 1)
            fault = ETIMEDOUT;
        else if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &fault, &size))
            fault = errno;
    }
    if (fault) {
        lost(connection, strerror(fault));
        return false;
    }
    int on = 1;
    if (family != AF_UNIX)
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return true;
}

static bool connect_any(struct sluice_connection *connection, const struct sluice_client_options *options, uint32_t timeout) {
    if (options->path) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (strlen(options->path) >= sizeof address.sun_path) {
            lost(connection, "the path of its socket is too long");
            return false;
        }
        strcpy(address.sun_path, options->path);
        return connect_socket(connection, AF_UNIX, (const struct sockaddr *)&address, sizeof address, timeout);
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fault = getaddrinfo(options->host, options->port, &hints, &found);
    if (fault) {
        lost(connection, gai_strerror(fault));
        return false;
    }
    bool connected = false;
    for (const struct addrinfo *each = found; each && !connected; each = each->ai_next)
        connected = connect_socket(connection, each->ai_family, each->ai_addr, each->ai_addrlen, timeout);
    freeaddrinfo(found);
    return connected;
}

redisReply *sluice_command(struct sluice_connection *connection, uint32_t timeout, int count, const char **words) {
    char *text = NULL;
    int size = redisFormatCommandArgv(&text, count, words, NULL);
    size_t sent = size > 0 ? sluice_send(connection, text, (size_t)size) : 0;
    redisFreeCommand(text);
    redisReply *reply = NULL;
    uint64_t begin = sluice_milliseconds();
    while (size > 0 && sent == (size_t)size && connection->fd >= 0 && !(reply = sluice_reply(connection)) &&
           sluice_milliseconds() - begin < timeout) {
        sluice_wait(connection, false, 50);
        sluice_receive(connection);
    }
    return reply;
}

/* AUTH, and its reply. */
static bool authenticate(struct sluice_connection *connection, const struct sluice_client_options *options, uint32_t timeout) {
    const char *words[] = {"AUTH", options->user ? options->user : options->password, options->password};
    redisReply *reply = sluice_command(connection, timeout, options->user ? 3 : 2, words);
    bool accepted = reply && reply->type == REDIS_REPLY_STATUS;
    if (!accepted && connection->fd >= 0)
        lost(connection, reply && reply->type == REDIS_REPLY_ERROR ? reply->str : "no reply to AUTH");
    if (reply)
        freeReplyObject(reply);
    return accepted;
}

bool sluice_reader_open(struct sluice_connection *connection) {
    connection->reader = redisReaderCreate();
    if (!connection->reader)
        return false;
    connection->defaults = connection->reader->fn;
    connection->functions = *connection->defaults;
    connection->reader->privdata = connection;
    if (!connection->arrays)
        connection->functions.createArray = short_array;
    connection->reader->fn = &connection->functions;
    return true;
}

bool sluice_connect(struct sluice_connection *connection, const struct sluice_client_options *options, uint32_t timeout) {
    sluice_disconnect(connection);
    if (!connect_any(connection, options, timeout))
        return false;
    if (!sluice_reader_open(connection)) {
        lost(connection, "no memory");
        return false;
    }
    return !options->password || authenticate(connection, options, timeout);
}

size_t sluice_send(struct sluice_connection *connection, const char *bytes, size_t size) {
    if (connection->fd < 0 || !size)
        return 0;
    ssize_t sent = send(connection->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
        return (size_t)sent;
    if (errno != EAGAIN && errno != EINTR)
        lost(connection, strerror(errno));
    return 0;
}

void sluice_wait(struct sluice_connection *connection, bool writes, uint32_t milliseconds) {
    struct pollfd wait = {.fd = connection->fd, .events = (short)(POLLIN | (writes ? POLLOUT : 0))};
    poll(&wait, 1, (int)milliseconds);   /* without a connection, fd is -1: it only waits */
}

void sluice_receive(struct sluice_connection *connection) {
    char bytes[1 << 14];
    while (connection->fd >= 0) {
        ssize_t size = recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (size <= 0) {
            lost(connection, size ? strerror(errno) : "it closed the connection");
            return;
        }
        if (redisReaderFeed(connection->reader, bytes, (size_t)size) != REDIS_OK ||
            connection->reader->len - connection->reader->pos >
                (connection->reply_most ? connection->reply_most : (size_t)SLUICE_REPLY_MOST))
            lost(connection, "its replies are no protocol of Valkey, or too long");
        if (size < (ssize_t)sizeof bytes)
            return;
    }
}

redisReply *sluice_reply(struct sluice_connection *connection) {
    void *reply = NULL;
    if (connection->fd < 0 || redisReaderGetReply(connection->reader, &reply) == REDIS_OK)
        return reply;
    lost(connection, "its replies are no protocol of Valkey");
    return NULL;
}
