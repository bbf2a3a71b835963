package pubsub

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// permanent tells the errors that trying again does not mend. Whatever a server answers is
// permanent unless it is known to pass: an unknown refusal that is told to a waiter is a nuisance,
// one that is waited out in silence is a hang.
func permanent(err error) bool {
	if errors.Is(err, redis.ErrClosed) {
		return true
	}
	return isReply(err) && !transient(err)
}

// isReply tells the server's error replies from those of the network.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func transient(err error) bool {
	return isMoved(err) ||
		redis.IsClusterDownError(err) ||
		redis.IsTryAgainError(err) ||
		redis.IsLoadingError(err) ||
		redis.IsMasterDownError(err) ||
		redis.IsReadOnlyError(err) ||
		redis.IsMaxClientsError(err) ||
		redis.HasErrorPrefix(err, "BUSY")
}

func isMoved(err error) bool {
	if _, ok := redis.IsMovedError(err); ok {
		return true
	}
	_, ok := redis.IsAskError(err)
	return ok
}

// isUnknownCommand: the words are the same in every version of Redis and Valkey; the case of
// "Unknown" is not.
func isUnknownCommand(err error) bool {
	return isReply(err) && strings.Contains(strings.ToLower(err.Error()), "unknown command")
}
