-- late: refuse a request that the network delayed for so long that its client has stopped waiting. A grant would lock the name,
-- without a holder, until the lease ends.
-- Reads: clock; limit: until when the script may be executed, as decimal text, nil: at any time
-- Replies {-2, clock} if the limit has passed
if limit and (#limit < #clock or #limit == #clock and limit < clock) then return {-2, clock} end
