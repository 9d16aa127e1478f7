-- Asks for the paths of a file. Arguments: the file; in turn ("cycle") or by Zipf's law with exponent 1 ("zipf"); after how
-- many answers to end, 0 for when the time is over; the status that each of them must have; the seed of Zipf's law, of which
-- the paths are the same in every run.
local requests, sums, place, answers, wrong = {}, {}, 0, 0, 0
local pick

local function next_in_turn()
  place = place % #requests + 1
  return place
end

local function next_by_zipf()
  local share = math.random() * sums[#sums]
  local low, high = 1, #sums
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sums[middle] > share then high = middle else low = middle + 1 end
  end
  return low
end

function init(arguments)
  local sum = 0
  for path in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("GET", path)
    sum = sum + 1 / #requests
    sums[#requests] = sum
  end
  pick = arguments[2] == "zipf" and next_by_zipf or next_in_turn
  local last, status = tonumber(arguments[3]), tonumber(arguments[4])
  math.randomseed(tonumber(arguments[5]))
  if last > 0 then
    response = function(seen)
      answers = answers + 1
      if seen ~= status then wrong = wrong + 1 end
      if answers == last then
        io.write(answers, " answers, ", wrong, " of them wrong\n")
        os.exit(0)
      end
    end
  end
end

function request()
  return requests[pick()]
end
