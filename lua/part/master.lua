-- master: refuse where the server is a replica. It grants nothing, and who waits there for what it shows would wait in vain.
-- Reads: there: a key that exists
-- Replies the error READONLY; nothing at a master, which writes nothing, because the key exists. Why a master refuses all that
-- writes does not matter here.
local written = redis.pcall('SET', there, '', 'NX')
if type(written) == 'table' and string.find(written.err or '', 'READONLY') then return written end
